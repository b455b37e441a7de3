"""Logged data in: one Dataset, and the readers, writers and registry around it."""

from stacq.data.border import Conventions as Conventions
from stacq.data.border import from_arrays as from_arrays
from stacq.data.dataset import Dataset as Dataset
from stacq.data.hdf5 import read_hdf5 as read_hdf5
from stacq.data.hdf5 import write_hdf5 as write_hdf5
from stacq.data.load import load as load
from stacq.data.npz import read_npz as read_npz
