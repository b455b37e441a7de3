"""Policies as plain NumPy, one kind per file: raw observation in, raw action out.

Workers that roll out policies import this package and nothing heavier.
"""

from stacq.policies.chosen import ChosenPolicy as ChosenPolicy
from stacq.policies.gaussian import GaussianPolicy as GaussianPolicy
from stacq.policies.mlp import MLPPolicy as MLPPolicy
from stacq.policies.nearest import NearestPolicy as NearestPolicy
from stacq.policies.networks import Layers as Layers
from stacq.policies.planner import PlannerPolicy as PlannerPolicy
from stacq.policies.policy import Actor as Actor
from stacq.policies.policy import Crew as Crew
from stacq.policies.policy import Policy as Policy
from stacq.policies.policy import Space as Space
