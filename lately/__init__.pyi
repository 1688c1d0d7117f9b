from .golden import *

__version__: str
