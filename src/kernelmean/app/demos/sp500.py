"""S&P 500: the kinds of days that a stock market has, and what each looks like."""

import numpy as np

from ...core.extras import require
from .job import Tables


def tables() -> Tables:
    """One row a day, 1999 to 2018: the log return in percent."""
    data = require("arch.data.sp500", "the prices of the index", 'pip install "kernelmean[app]"')
    returns = 100 * np.log(data.load()["Adj Close"]).diff().dropna()
    frame = returns.rename("return").rename_axis("day").reset_index()
    return {"sp500.csv": frame}
