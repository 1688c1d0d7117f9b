"""Results of studies, for tests of what is concluded from them."""

import json


def measured(study, points):
    """Points with their results as they come back from another process."""
    return [(point, json.loads(json.dumps(study.run(point), allow_nan=False))) for point in points]


def concluded(study, points):
    return study.conclude(measured(study, points))
