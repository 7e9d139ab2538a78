"""Draw the curves of any runs side by side; `cory-curves` in an installed package.

python scripts/curves.py outputs/runs/small/paper/cory/imdb_ppo -o curves.png
"""

from cory.report.curves import main

if __name__ == "__main__":
    main()
