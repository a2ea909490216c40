/**
 * Isolation forest (Liu, Ting and Zhou, "Isolation-Based Anomaly Detection", 2012): random splits cut an odd row off early. The score is 2^(-depth / expected
 * depth), from 0 to 1; about 0.5 is ordinary. The same rows give the same scores: chance is seeded.
 */

interface ForestOptions {
  /** Default 100. */
  trees?: number
  /** Rows that each tree is made from; default 256. */
  sample?: number
  seed?: number
}

const EULER = 0.5772156649015329

/** @param columns of one length, without NaN. */
export function isolationScores(columns: readonly Float64Array[], { trees = 100, sample = 256, seed = 1 }: ForestOptions = {}): Float64Array {
  const n = columns[0].length
  const size = Math.min(sample, n)
  const random = xorshift(seed)
  const depths = new Float64Array(n)
  const picked = new Int32Array(size)
  const tree = new Tree(2 * size, Math.ceil(Math.log2(Math.max(2, size))))
  for (let i = 0; i < trees; i++) {
    pick(picked, n, random)
    tree.grow(columns, picked, random)
    tree.addDepths(columns, depths)
  }
  const expected = averageDepth(size) * trees
  return depths.map((depth) => (expected > 0 ? 2 ** (-depth / expected) : 0.5))
}

/** Of a search without success in a binary tree of n. */
function averageDepth(n: number): number {
  if (n <= 1) return 0
  return n === 2 ? 1 : 2 * (Math.log(n - 1) + EULER) - (2 * (n - 1)) / n
}

/** Nodes in arrays; a leaf has the column -1, and in place of a split the depth that its rows would still have. */
class Tree {
  private readonly column: Int16Array
  private readonly split: Float64Array
  private readonly right: Int32Array
  private readonly maxDepth: number
  private count = 0

  constructor(nodes: number, maxDepth: number) {
    this.column = new Int16Array(nodes)
    this.split = new Float64Array(nodes)
    this.right = new Int32Array(nodes)
    this.maxDepth = maxDepth
  }

  grow(columns: readonly Float64Array[], rows: Int32Array, random: () => number): void {
    this.count = 0
    this.node(columns, rows, 0, random)
  }

  addDepths(columns: readonly Float64Array[], depths: Float64Array): void {
    const { column, split, right } = this
    for (let row = 0; row < depths.length; row++) {
      let node = 0
      let depth = 0
      while (column[node] >= 0) {
        node = columns[column[node]][row] < split[node] ? node + 1 : right[node]
        depth++
      }
      depths[row] += depth + split[node]
    }
  }

  /** The left child follows its parent. */
  private node(columns: readonly Float64Array[], rows: Int32Array, depth: number, random: () => number): number {
    const at = this.count++
    const leaf = (): number => {
      this.column[at] = -1
      this.split[at] = averageDepth(rows.length)
      return at
    }
    if (depth >= this.maxDepth || rows.length <= 1) return leaf()
    const first = Math.floor(random() * columns.length)
    for (let k = 0; k < columns.length; k++) {
      const index = (first + k) % columns.length
      const values = columns[index]
      let low = Number.POSITIVE_INFINITY
      let high = Number.NEGATIVE_INFINITY
      for (let i = 0; i < rows.length; i++) {
        low = Math.min(low, values[rows[i]])
        high = Math.max(high, values[rows[i]])
      }
      if (!(high > low)) continue
      const split = low + (1 - random()) * (high - low)
      // A row each side: the split is above the lowest and at most the highest.
      let left = 0
      for (let i = 0; i < rows.length; i++) {
        if (values[rows[i]] >= split) continue
        const held = rows[i]
        rows[i] = rows[left]
        rows[left++] = held
      }
      if (left === 0 || left === rows.length) continue
      this.column[at] = index
      this.split[at] = split
      this.node(columns, rows.subarray(0, left), depth + 1, random)
      this.right[at] = this.node(columns, rows.subarray(left), depth + 1, random)
      return at
    }
    return leaf()
  }
}

/** A sample without repetition: each row of all is as likely (Knuth's algorithm S would read all rows; this draws again). */
function pick(out: Int32Array, n: number, random: () => number): void {
  if (out.length === n) {
    for (let i = 0; i < n; i++) out[i] = i
    return
  }
  const taken = new Set<number>()
  for (let i = 0; i < out.length; ) {
    const row = Math.floor(random() * n)
    if (taken.has(row)) continue
    taken.add(row)
    out[i++] = row
  }
}

function xorshift(seed: number): () => number {
  let s = (seed * 2654435761) | 0 || 1
  return () => {
    s ^= s << 13
    s ^= s >>> 17
    s ^= s << 5
    return (s >>> 0) / 4294967296
  }
}
