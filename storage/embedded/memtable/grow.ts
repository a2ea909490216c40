/** Growable arrays: doubled by copying. Readers of shared ones keep the old array until they know of the new one. */

/** Where the arrays of a table lie: in memory that engine threads read too, or in the main thread's own. */
export type Memory = 'shared' | 'local'

/** Zeros. */
export function newInt32(length: number, memory: Memory = 'shared'): Int32Array {
  return new Int32Array(memory === 'shared' ? new SharedArrayBuffer(length * 4) : new ArrayBuffer(length * 4))
}

export function newBytes(length: number, memory: Memory = 'shared'): Uint8Array {
  return new Uint8Array(memory === 'shared' ? new SharedArrayBuffer(length) : new ArrayBuffer(length))
}

/** An array of at least `needed` entries with the old content, `factor` times as long as before. */
export function grownInt32(old: Int32Array, needed: number, memory: Memory = 'shared', factor = 2): Int32Array {
  const grown = newInt32(Math.max(old.length * factor, needed), memory)
  grown.set(old)
  return grown
}

export function grownBytes(old: Uint8Array, needed: number, memory: Memory = 'shared', factor = 2): Uint8Array {
  const grown = newBytes(Math.max(old.length * factor, needed), memory)
  grown.set(old)
  return grown
}

/** A local (not shared) array, doubled. */
export function widened<T extends Int32Array | Uint8Array>(old: T, length: number, fill = 0): T {
  const grown = new (old.constructor as { new (n: number): T })(length)
  grown.set(old)
  if (fill !== 0) grown.fill(fill, old.length)
  return grown
}
