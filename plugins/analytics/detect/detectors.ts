/** The detectors by name. A value is an anomaly where its score is above the threshold. */
import { UnfitError } from '../forecast/model.ts'
import { clusterScores } from './clusters.ts'
import { isolationScores } from './isolation-forest.ts'
import { mahalanobisScores, pcaScores } from './multivariate.ts'
import { cusumScores, dynamicScores, iqrScores, modifiedZscores, moments, movingAverageScores, residualScores, zscores } from './scores.ts'

type Single = (values: Float64Array) => Float64Array
type Several = (columns: readonly Float64Array[]) => Float64Array

interface Detector {
  /** Where none is asked for. */
  threshold: number
  /** NaN among the values has the score NaN. */
  single?: Single
  /** Of rows without NaN. */
  several?: Several
  /** Columns that it needs; default 1. */
  columns?: number
}

const LEAST_POINTS = 3
/** Rows that DBSCAN compares with one another; of more, so many are taken evenly and the others judged by them. */
const MOST_COMPARED = 20_000
/** As powers of two: numbers between them can be squared and summed. */
const LARGEST = 400
const FARTHEST = 1000
const EPS = 0.5
const MIN_SAMPLES = 5

/** In standard deviations of each column. */
const clusters: Several = (columns) => {
  const standard = columns.map((column) => {
    const { mean, std } = moments(column)
    return column.map((v) => (std > 0 ? (v - mean) / std : 0))
  })
  return clusterScores(standard, { eps: EPS, minSamples: MIN_SAMPLES, most: standard.length > 1 ? MOST_COMPARED : Number.POSITIVE_INFINITY })
}

export const DETECTORS: Readonly<Record<string, Detector>> = {
  zscore: { threshold: 3, single: zscores },
  modified_zscore: { threshold: 3.5, single: modifiedZscores },
  iqr: { threshold: 1.5, single: iqrScores },
  dynamic_threshold: { threshold: 3, single: (values) => dynamicScores(values) },
  forecast_residual: { threshold: 3, single: residualScores },
  moving_average: { threshold: 3, single: (values) => movingAverageScores(values) },
  cusum: { threshold: 5, single: (values) => cusumScores(values) },
  isolation_forest: { threshold: 0.6, several: (columns) => isolationScores(columns) },
  dbscan: { threshold: 1, several: clusters },
  mahalanobis: { threshold: 3, several: mahalanobisScores },
  pca: { threshold: 3, several: (columns) => pcaScores(columns), columns: 2 },
}
export const DETECTOR_NAMES: readonly string[] = Object.keys(DETECTORS)

/** @throws UnfitError for a name that is not known. */
export function detectorOf(name: string): Detector {
  if (!Object.hasOwn(DETECTORS, name)) throw new UnfitError(`there is no detector "${name}"; use one of ${DETECTOR_NAMES.join(', ')}`)
  return DETECTORS[name]
}

/**
 * @param columns one or several of one length; a row with NaN or an infinity in any has the score NaN.
 * @throws UnfitError for an unknown name, a detector of one series with several columns, or fewer than 3 whole rows.
 */
export function scoresOf(name: string, columns: readonly Float64Array[]): Float64Array {
  const { single, several, columns: least = 1 } = detectorOf(name)
  if (columns.length < least) throw new UnfitError(`${name} looks at several series together; of one use ${namesOfOne().join(', ')}`)
  const rows = wholeRows(columns)
  if (rows.length < LEAST_POINTS) throw new UnfitError(`${name} needs ${LEAST_POINTS} points; there are ${rows.length}`)
  if (single !== undefined) {
    if (columns.length > 1) throw new UnfitError(`${name} looks at one series; of several use ${namesOfSeveral().join(', ')}`)
    return single(scaled(columns[0]))
  }
  const scores = (several as Several)(columns.map((column) => scaled(rows.length === column.length ? column : Float64Array.from(rows, (row) => column[row]))))
  if (rows.length === columns[0].length) return scores
  const out = new Float64Array(columns[0].length).fill(Number.NaN)
  for (let i = 0; i < rows.length; i++) out[rows[i]] = scores[i]
  return out
}

export const namesOfOne = (): string[] => DETECTOR_NAMES.filter((name) => (DETECTORS[name].columns ?? 1) === 1)
export const namesOfSeveral = (): string[] => DETECTOR_NAMES.filter((name) => DETECTORS[name].several !== undefined)

/** In a unit in which squares are doubles: no score depends on the unit. */
function scaled(values: Float64Array): Float64Array {
  let most = 0
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i])
    if (size > most && size < Number.POSITIVE_INFINITY) most = size
  }
  const power = most > 0 ? Math.max(-FARTHEST, Math.min(FARTHEST, Math.round(Math.log2(most)))) : 0
  if (Math.abs(power) <= LARGEST) return values
  const unit = 2 ** -power
  return values.map((v) => v * unit)
}

function wholeRows(columns: readonly Float64Array[]): Int32Array {
  const out = new Int32Array(columns[0].length)
  let count = 0
  for (let row = 0; row < out.length; row++) {
    let whole = true
    for (let c = 0; c < columns.length; c++) whole &&= columns[c][row] - columns[c][row] === 0
    if (whole) out[count++] = row
  }
  return out.subarray(0, count)
}
