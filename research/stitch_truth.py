"""How true are the stitches of MBTS? Each tried out in the simulator.

    python research/stitch_truth.py PATH/data.hdf5 stacq/hopper-medium-v0

The first is what `stacq train ... --algo mbts` leaves in the cache, the second what it was made from.
"""

import argparse
import json
from dataclasses import asdict

from stacq import load
from stacq.envs.simulator import Simulator
from stacq.stitch.truth import MOST, truth


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("stitched")
    parser.add_argument("recording")
    parser.add_argument("--stitches", type=int, default=MOST, help="how many are tried")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    stitched, recording = load(chosen.stitched, infos="all"), load(chosen.recording, infos=("qpos", "qvel"))
    assert recording.env_id is not None, "regenerated data names its environment"
    found = truth(recording, stitched, Simulator(recording.env_id), most=chosen.stitches, seed=chosen.seed)
    print(found.text())
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
