/** Growable arrays over shared memory: doubled by copying. Readers keep the old array until they are told of the new one. */

export function sharedInt32(length: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(length * 4))
}

export function sharedBytes(length: number): Uint8Array {
  return new Uint8Array(new SharedArrayBuffer(length))
}

/** An array of at least `needed` entries with the old content, twice as long as before. */
export function grownInt32(old: Int32Array, needed: number): Int32Array {
  const grown = sharedInt32(Math.max(old.length * 2, needed))
  grown.set(old)
  return grown
}

export function grownBytes(old: Uint8Array, needed: number): Uint8Array {
  const grown = sharedBytes(Math.max(old.length * 2, needed))
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
