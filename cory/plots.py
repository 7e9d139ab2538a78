def draw_curves(groups, path):
    pass
