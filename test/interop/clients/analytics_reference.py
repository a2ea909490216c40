"""Answers by statsmodels and scikit-learn: a JSON array of tasks on the standard input, one of answers on the standard output.

A task is {"task": name, "values": [...], ...arguments}; {"task": "dataset", "name": ...} gives a series that statsmodels ships.
"""
import json
import sys
import warnings

import numpy as np


def numbers(array):
    return [float(v) for v in np.asarray(array, dtype=float).ravel()]


def dataset(task):
    import statsmodels.api as sm

    name = task["name"]
    if name == "nile":
        return {"values": numbers(sm.datasets.nile.load_pandas().data["volume"])}
    if name == "sunspots":
        return {"values": numbers(sm.datasets.sunspots.load_pandas().data["SUNACTIVITY"])}
    if name == "co2":
        weekly = sm.datasets.co2.load_pandas().data["co2"]
        return {"values": numbers(weekly.resample("MS").mean().interpolate())}
    if name == "elnino":
        table = sm.datasets.elnino.load_pandas().data.drop(columns="YEAR")
        return {"values": numbers(table.values)}
    if name == "realgdp":
        return {"values": numbers(sm.datasets.macrodata.load_pandas().data["realgdp"])}
    raise ValueError(name)


def smoothed(fit, horizon):
    return {"sse": float(fit.sse), "forecast": numbers(fit.forecast(horizon))}


def ses(task):
    from statsmodels.tsa.holtwinters import SimpleExpSmoothing

    values = np.array(task["values"])
    if "smoothing" in task:
        known = SimpleExpSmoothing(values, initialization_method="known", initial_level=task["initial"][0])
        return smoothed(known.fit(smoothing_level=task["smoothing"][0], optimized=False), task["horizon"])
    return smoothed(SimpleExpSmoothing(values, initialization_method="estimated").fit(), task["horizon"])


def holt(task):
    from statsmodels.tsa.holtwinters import Holt

    damped = task["phi"] < 1
    if "smoothing" in task:
        level, trend = task["initial"]
        known = Holt(np.array(task["values"]), damped_trend=damped, initialization_method="known", initial_level=level, initial_trend=trend)
        alpha, beta = task["smoothing"]
        given = {"damping_trend": task["phi"]} if damped else {}
        return smoothed(known.fit(smoothing_level=alpha, smoothing_trend=beta, optimized=False, **given), task["horizon"])
    model = Holt(np.array(task["values"]), damped_trend=damped, initialization_method="estimated")
    return smoothed(model.fit(**({"damping_trend": task["phi"]} if damped else {})), task["horizon"])


def holt_winters(task):
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    model = ExponentialSmoothing(
        np.array(task["values"]), trend="add", seasonal="mul" if task["multiplicative"] else "add", seasonal_periods=task["period"], initialization_method="heuristic"
    )
    given = task.get("smoothing")
    fit = model.fit() if given is None else model.fit(optimized=False, smoothing_level=given[0], smoothing_trend=given[1], smoothing_seasonal=given[2])
    return smoothed(fit, task["horizon"])


def arima(task):
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    values = np.array(task["values"])
    p, d, q = task["order"]
    seasonal = tuple(task.get("seasonal", (0, 0, 0, 0)))
    trend = "c" if d + seasonal[1] == 0 else "n"
    differenced = SARIMAX(values, order=(p, d, q), seasonal_order=seasonal, trend=trend, simple_differencing=True).fit(disp=False, maxiter=500)
    whole = SARIMAX(values, order=(p, d, q), seasonal_order=seasonal, trend=trend).fit(disp=False, maxiter=500)
    ahead = whole.get_forecast(task["horizon"])
    return {"llf": float(differenced.llf), "params": numbers(differenced.params), "forecast": numbers(ahead.predicted_mean), "se": numbers(ahead.se_mean)}


def line(task):
    import statsmodels.api as sm

    values = np.array(task["values"])
    fit = sm.OLS(values, sm.add_constant(np.arange(len(values)))).fit()
    ahead = fit.get_prediction(sm.add_constant(np.arange(len(values), len(values) + task["horizon"]), has_constant="add"))
    return {"forecast": numbers(ahead.predicted_mean), "se": numbers(np.sqrt(ahead.var_pred_mean + fit.mse_resid)), "r_squared": float(fit.rsquared)}


def kpss(task):
    from statsmodels.tsa.stattools import kpss as test

    return {"statistic": float(test(np.array(task["values"]), regression="c", nlags=task["lags"])[0])}


def vector(task):
    from statsmodels.tsa.api import VAR

    model = VAR(np.column_stack([task["values"], task["other"]]))
    fit = model.fit(maxlags=task["max_lags"], ic="bic")
    return {"order": int(fit.k_ar), "forecast": numbers(fit.forecast(fit.endog, task["horizon"])[:, 0]) if fit.k_ar > 0 else []}


def stl(task):
    from statsmodels.tsa.seasonal import STL

    model = STL(np.array(task["values"]), period=task["period"], robust=task["robust"])
    fit = model.fit(inner_iter=1, outer_iter=15) if task["robust"] else model.fit(inner_iter=2, outer_iter=0)
    return {"trend": numbers(fit.trend), "seasonal": numbers(fit.seasonal)}


def rows(task):
    return np.column_stack(task["columns"])


def mahalanobis(task):
    from sklearn.covariance import EmpiricalCovariance

    return {"scores": numbers(np.sqrt(EmpiricalCovariance().fit(rows(task)).mahalanobis(rows(task))))}


def pca(task):
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    data = StandardScaler().fit_transform(rows(task))
    model = PCA(n_components=task["variance"], svd_solver="full").fit(data)
    rest = data - model.inverse_transform(model.transform(data))
    return {"components": int(model.n_components_), "scores": numbers(np.sqrt((rest**2).sum(axis=1)))}


def dbscan(task):
    from sklearn.cluster import DBSCAN

    labels = DBSCAN(eps=task["eps"], min_samples=task["min_samples"]).fit(rows(task)).labels_
    return {"noise": [int(i) for i in np.flatnonzero(labels < 0)], "clusters": int(labels.max() + 1)}


def isolation_forest(task):
    from sklearn.ensemble import IsolationForest

    model = IsolationForest(n_estimators=task["trees"], max_samples=task["sample"], random_state=1).fit(rows(task))
    return {"scores": numbers(-model.score_samples(rows(task)))}


def auto(task):
    """Forecasts of what statsmodels chooses by itself, ETS by AICc, and of a seasonal naive one."""
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    values = np.array(task["values"])
    period = task["period"]
    best = None
    for trend, damped in ((None, False), ("add", False), ("add", True)):
        for seasonal in (None, "add") if period > 1 and len(values) >= 2 * period + 5 else (None,):
            try:
                fit = ETSModel(values, trend=trend, damped_trend=damped, seasonal=seasonal, seasonal_periods=period if seasonal else None).fit(disp=False)
            except Exception:
                continue
            if best is None or fit.aicc < best.aicc:
                best = fit
    return {"forecast": numbers(best.forecast(task["horizon"]))}


def auto_ets(task):
    """ETS as the package forecast of R chooses it, by statsforecast, where that is installed."""
    from statsforecast.models import AutoETS

    return {"forecast": numbers(AutoETS(season_length=task["period"]).forecast(y=np.array(task["values"]), h=task["horizon"])["mean"])}


def auto_arima(task):
    """SARIMA as the package forecast of R chooses it, by statsforecast, where that is installed."""
    from statsforecast.models import AutoARIMA

    return {"forecast": numbers(AutoARIMA(season_length=task["period"]).forecast(y=np.array(task["values"]), h=task["horizon"])["mean"])}


def prophet(task):
    """Prophet of months or days, where it is installed."""
    import logging

    import pandas as pd
    from prophet import Prophet

    logging.getLogger("cmdstanpy").disabled = True
    values = task["values"]
    steps = pd.date_range("1950-01-01", periods=len(values) + task["horizon"], freq="MS" if task["period"] == 12 else "D")
    model = Prophet(yearly_seasonality=task["period"] == 12, weekly_seasonality=False, daily_seasonality=False)
    model.fit(pd.DataFrame({"ds": steps[: len(values)], "y": values}))
    return {"forecast": numbers(model.predict(pd.DataFrame({"ds": steps[len(values) :]}))["yhat"])}


TASKS = {f.__name__: f for f in (dataset, ses, holt, holt_winters, arima, line, kpss, vector, stl, mahalanobis, pca, dbscan, isolation_forest, auto, auto_ets, auto_arima, prophet)}


def main():
    answers = []
    for task in json.load(sys.stdin):
        warnings.simplefilter("ignore")
        try:
            answers.append(TASKS[task["task"]](task))
        except Exception as error:
            answers.append({"error": f"{type(error).__name__}: {error}"})
    json.dump(answers, sys.stdout)


main()
