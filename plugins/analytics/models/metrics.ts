import type { Counter, Histogram, Metrics } from 'svcdb'
import type { Seconds } from './compute.ts'

export interface ModelMetrics {
  fit: Histogram
  predict: Histogram
  preprocess: Histogram
  batchFit: Histogram
  anomalyFit: Histogram
  anomalyDetect: Histogram
  manyDetect: Histogram
  correlation: Histogram
  batches: Counter
  anomalies: Counter
  clockCorrections: Counter
  drifts: Counter
  refits: Counter
  forecastPoints: Counter
  failures: Counter
}

export interface DerivedMetrics {
  seconds: Histogram
  points: Counter
  failures: Counter
}

export function derivedMetrics(metrics: Metrics): DerivedMetrics {
  return {
    seconds: metrics.histogram('derived_series_eval_duration_seconds', 'Time of one evaluation of a derived series'),
    points: metrics.counter('derived_series_points_written_total', 'Points that derived series have written; what came to the same as before is not'),
    failures: metrics.counter('derived_series_failures_total', 'Evaluations of derived series that failed; they are tried again'),
  }
}

/** Over all models; GET /api/v1/admin/analytics/models has each one's. NaN = there is none. */
export interface ModelFigures {
  models: number
  worstDrift: number
  mape: number
  rmse: number
  oldestSecs: number
  championMape: number
  challengerMape: number
  waiting: number
  running: number
}

export function modelMetrics(metrics: Metrics, figures: () => ModelFigures): ModelMetrics {
  const gauge = (name: string, help: string, value: (all: ModelFigures) => number) =>
    metrics.gauge(name, help, [], (one) => {
      const found = value(figures())
      one.set(Number.isFinite(found) ? found : 0)
    })
  gauge('models', 'Models that are trained', ({ models }) => models)
  gauge('model_compute_waiting', 'Trainings, forecasts and detections that wait for a thread', ({ waiting }) => waiting)
  gauge('model_compute_running', 'Trainings, forecasts and detections that have a thread', ({ running }) => running)
  gauge(
    'model_drift_score',
    'Error of the model that has drifted most, one step ahead, over that of its training; 1 = as good as then',
    ({ worstDrift }) => worstDrift,
  )
  gauge('model_accuracy_mape', 'Mean over models of the absolute error relative to values that came after their training, one step ahead', ({ mape }) => mape)
  gauge('model_accuracy_rmse', 'Mean over models of the root mean squared error on values that came after their training, one step ahead', ({ rmse }) => rmse)
  gauge('model_age_seconds', 'Time since the Champion that is oldest was trained', ({ oldestSecs }) => oldestSecs)
  gauge('model_ab_test_champion_mape', 'Mean over models with a Challenger of the relative error of the Champion', ({ championMape }) => championMape)
  gauge(
    'model_ab_test_challenger_mape',
    'Mean over models with a Challenger of the relative error of the Challenger, on the same samples',
    ({ challengerMape }) => challengerMape,
  )
  const { histogram, counter } = { histogram: metrics.histogram.bind(metrics), counter: metrics.counter.bind(metrics) }
  return {
    fit: histogram('forecast_fit_duration_seconds', 'Time to fit one model'),
    predict: histogram('forecast_predict_duration_seconds', 'Time to bring a model up to the newest samples and to forecast'),
    preprocess: histogram('preprocess_duration_seconds', 'Time to make a series with one value a step out of samples'),
    batchFit: histogram('compute_parallel_fit_duration_seconds', 'Time to retrain all models of one request, side by side'),
    anomalyFit: histogram('anomaly_fit_duration_seconds', 'Time to learn what is usual in a series, and to score each sample'),
    anomalyDetect: histogram('anomaly_detect_duration_seconds', 'Time of a detection as a whole, reading the samples included'),
    manyDetect: histogram('multivariate_anomaly_detect_duration_seconds', 'Time of a detection over several fields as a whole'),
    correlation: histogram('correlation_compute_duration_seconds', 'Time for the correlations of several fields'),
    batches: counter('compute_batch_operations_total', 'Requests to retrain that began models'),
    anomalies: counter('anomaly_detected_total', 'Anomalies that detections over HTTP have found, and samples that scheduled forecasts scored above 3'),
    clockCorrections: counter('clock_drift_corrections_total', 'Samples that lay off their step by more than a hundredth of it, and were moved there'),
    drifts: counter('model_drift_detected_total', 'Times that a model was found to have drifted'),
    refits: counter('model_refit_total', 'Models that were fitted again: on request, or because they had drifted'),
    forecastPoints: counter('model_forecast_points_written_total', 'Points that scheduled forecasts have written'),
    failures: counter('model_failures_total', 'Trainings, looks at drift and scheduled forecasts that failed; they are tried again'),
  }
}

export function observe(metrics: ModelMetrics, { preprocess, fit, predict, correlation }: Seconds): void {
  if (preprocess !== undefined) metrics.preprocess.observe(preprocess)
  if (fit !== undefined) metrics.fit.observe(fit)
  if (predict !== undefined) metrics.predict.observe(predict)
  if (correlation !== undefined) metrics.correlation.observe(correlation)
}
