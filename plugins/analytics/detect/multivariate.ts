/** Detectors of rows of several values: distances that know how the columns go together. Columns have one length and no NaN. */
import { cholesky, solve } from '../forecast/vector.ts'
import { moments } from './scores.ts'

/** Mahalanobis distance of each row from the means, by the covariance over all rows (over n, as scikit-learn has it). Columns that follow from others are left out. */
export function mahalanobisScores(columns: readonly Float64Array[]): Float64Array {
  const n = columns[0].length
  const kept: Float64Array[] = []
  let factor = new Float64Array(0) as Float64Array
  for (const column of columns) {
    const { mean, std } = moments(column)
    if (!(std > 0)) continue
    const more = [...kept, column.map((v) => (v - mean) / std)]
    const found = cholesky(covariance(more), more.length)
    if (found === undefined) continue
    kept.push(more[more.length - 1])
    factor = found
  }
  const out = new Float64Array(n)
  const row = new Float64Array(kept.length)
  for (let i = 0; i < n && kept.length > 0; i++) {
    for (let c = 0; c < kept.length; c++) row[c] = kept[c][i]
    const solved = solve(factor, row, kept.length)
    let sum = 0
    for (let c = 0; c < kept.length; c++) sum += row[c] * solved[c]
    out[i] = Math.sqrt(Math.max(0, sum))
  }
  return out
}

/**
 * What the principal components of the standardised columns leave of each row: its distance from the plane that holds `variance` of the whole.
 * @returns distances and the number of components, so many as it takes.
 */
export function pcaDistances(columns: readonly Float64Array[], variance = 0.95): { distances: Float64Array; components: number } {
  const n = columns[0].length
  const standard = columns.map((column) => {
    const { mean, count, std } = moments(column)
    const deviation = std * Math.sqrt((count - 1) / count)
    return column.map((v) => (deviation > 0 ? (v - mean) / deviation : 0))
  })
  const size = standard.length
  const { values, vectors } = eigen(covariance(standard), size)
  const whole = values.reduce((sum, v) => sum + v, 0)
  let components = 0
  for (let held = 0; components < size && !(held > variance * whole); components++) held += values[components]
  const distances = new Float64Array(n)
  for (let i = 0; i < n; i++) {
    let rest = 0
    for (let k = components; k < size; k++) {
      let along = 0
      for (let c = 0; c < size; c++) along += standard[c][i] * vectors[c * size + k]
      rest += along * along
    }
    distances[i] = Math.sqrt(rest)
  }
  return { distances, components }
}

/** `pcaDistances` in units of their root mean square; 0 where nothing is left. */
export function pcaScores(columns: readonly Float64Array[], variance?: number): Float64Array {
  const { distances } = pcaDistances(columns, variance)
  const unit = Math.sqrt(distances.reduce((sum, v) => sum + v * v, 0) / distances.length)
  return distances.map((v) => (unit > 1e-9 ? v / unit : 0))
}

/** Of columns about 0, over n. */
function covariance(columns: readonly Float64Array[]): Float64Array {
  const size = columns.length
  const out = new Float64Array(size * size)
  for (let a = 0; a < size; a++) {
    for (let b = 0; b <= a; b++) {
      let sum = 0
      for (let i = 0; i < columns[a].length; i++) sum += columns[a][i] * columns[b][i]
      out[a * size + b] = sum / columns[a].length
      out[b * size + a] = out[a * size + b]
    }
  }
  return out
}

/** Eigenvalues, the largest first, and their vectors as columns, by Jacobi's rotations. */
function eigen(matrix: Float64Array, size: number): { values: Float64Array; vectors: Float64Array } {
  const a = Float64Array.from(matrix)
  const v = new Float64Array(size * size)
  for (let i = 0; i < size; i++) v[i * size + i] = 1
  for (let sweep = 0; sweep < 60; sweep++) {
    let off = 0
    for (let i = 0; i < size; i++) for (let j = 0; j < i; j++) off += a[i * size + j] ** 2
    if (off < 1e-24) break
    for (let p = 0; p < size; p++) for (let q = p + 1; q < size; q++) rotate(a, v, size, p, q)
  }
  const order = Array.from({ length: size }, (_, i) => i).sort((i, j) => a[j * size + j] - a[i * size + i])
  const vectors = new Float64Array(size * size)
  for (const [k, from] of order.entries()) for (let i = 0; i < size; i++) vectors[i * size + k] = v[i * size + from]
  return { values: Float64Array.from(order, (i) => Math.max(0, a[i * size + i])), vectors }
}

/** Makes a[p][q] 0. */
function rotate(a: Float64Array, v: Float64Array, size: number, p: number, q: number): void {
  const apq = a[p * size + q]
  if (Math.abs(apq) < 1e-300) return
  const theta = (a[q * size + q] - a[p * size + p]) / (2 * apq)
  const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1))
  const c = 1 / Math.sqrt(t * t + 1)
  const s = t * c
  for (let k = 0; k < size; k++) {
    const kp = a[k * size + p]
    const kq = a[k * size + q]
    a[k * size + p] = c * kp - s * kq
    a[k * size + q] = s * kp + c * kq
  }
  for (let k = 0; k < size; k++) {
    const pk = a[p * size + k]
    const qk = a[q * size + k]
    a[p * size + k] = c * pk - s * qk
    a[q * size + k] = s * pk + c * qk
    const vp = v[k * size + p]
    const vq = v[k * size + q]
    v[k * size + p] = c * vp - s * vq
    v[k * size + q] = s * vp + c * vq
  }
}
