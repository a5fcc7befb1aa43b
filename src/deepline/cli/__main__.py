"""`python -m deepline.cli`, for whoever starts our processes without the console script."""

import sys

from deepline.cli import main

sys.exit(main())
