/**
 * DBSCAN (Ester, Kriegel, Sander and Xu, 1996): rows with many others near them are the core of clusters, and what lies near no core is noise. For anomalies the
 * clusters themselves do not matter: the score is the distance to the nearest core row over `eps`, and above 1 is noise.
 */

interface ClusterOptions {
  /** In the unit of the columns. */
  eps: number
  /** Rows within `eps`, the row itself among them, that make it a core. */
  minSamples: number
  /** Rows that are looked at for cores: of more, so many at even distances, by which all are judged. Default all. */
  most?: number
}

/** Where there is no core at all, nothing says what is ordinary: all rows have the score Infinity. @param columns of one length, without NaN. */
export function clusterScores(columns: readonly Float64Array[], { eps, minSamples, most = Number.POSITIVE_INFINITY }: ClusterOptions): Float64Array {
  const n = columns[0].length
  const stride = Math.max(1, Math.ceil(n / most))
  const order = Uint32Array.from({ length: Math.ceil(n / stride) }, (_, i) => i * stride)
  const first = columns[0]
  order.sort((a, b) => first[a] - first[b])
  const sorted = columns.map((column) => Float64Array.from(order, (row) => column[row]))
  const places = coresOf(sorted, eps, minSamples)
  const cores = sorted.map((column) => Float64Array.from(places, (place) => column[place]))
  const out = new Float64Array(n)
  for (let row = 0; row < n; row++) out[row] = nearestCore(columns, cores, row) / eps
  return out
}

/** Places of cores in the order of the first column. */
function coresOf(sorted: readonly Float64Array[], eps: number, minSamples: number): Int32Array {
  const [first, ...others] = sorted
  const n = first.length
  const cores = new Int32Array(n)
  let count = 0
  let from = 0
  let to = 0
  for (let i = 0; i < n; i++) {
    while (first[i] - first[from] > eps) from++
    while (to < n && first[to] - first[i] <= eps) to++
    let near = to - from
    if (others.length > 0 && near >= minSamples) {
      near = 0
      for (let j = from; j < to && near < minSamples; j++) if (squaredDistance(sorted, i, sorted, j) <= eps * eps) near++
    }
    if (near >= minSamples) cores[count++] = i
  }
  return cores.subarray(0, count)
}

function nearestCore(columns: readonly Float64Array[], cores: readonly Float64Array[], row: number): number {
  const first = cores[0]
  const v = columns[0][row]
  let low = 0
  let high = first.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (first[middle] < v) low = middle + 1
    else high = middle
  }
  // Outwards in the first column until that alone is farther than the nearest so far.
  let best = Number.POSITIVE_INFINITY
  for (let k = low; k < first.length && (first[k] - v) ** 2 < best; k++) best = Math.min(best, squaredDistance(columns, row, cores, k))
  for (let k = low - 1; k >= 0 && (v - first[k]) ** 2 < best; k--) best = Math.min(best, squaredDistance(columns, row, cores, k))
  return Math.sqrt(best)
}

function squaredDistance(a: readonly Float64Array[], rowA: number, b: readonly Float64Array[], rowB: number): number {
  let sum = 0
  for (let c = 0; c < a.length; c++) sum += (a[c][rowA] - b[c][rowB]) ** 2
  return sum
}
