"""Compare any runs in one table; `cory-compare` in an installed package.

python scripts/compare.py outputs/adhoc/2026-01-31_12-00-00
"""

from cory.report.compare import main

if __name__ == "__main__":
    main()
