/** Many entries at a time for the open addressing of `TextTable` and `TupleTable`: where a start puts millions of them into empty slots. */

/** From so many entries on it is worth its arrays. */
export const MANY = 1 << 14
/** Parts of the slots that are filled one after the other: each lies in the processor's caches while it is. */
const PARTS_BITS = 8
/** Below so many slots all of them lie there. */
const MANY_SLOTS = 1 << 18

/**
 * Puts entries [from, end) into free slots, as entry + 1, in the order of the slots: in that of the entries each would wait for memory.
 * @param hashes by entry. @param isIn whether an entry is to be found.
 * @returns how many were put there.
 */
export function fillSlots(slots: Int32Array, hashes: Int32Array, from: number, end: number, isIn: (entry: number) => boolean): number {
  const mask = slots.length - 1
  const shift = slots.length < MANY_SLOTS ? 31 : Math.log2(slots.length) - PARTS_BITS
  const starts = new Int32Array(2 + (mask >> shift))
  for (let entry = from; entry < end; entry++) if (isIn(entry)) starts[((hashes[entry] & mask) >> shift) + 1]++
  for (let part = 1; part < starts.length; part++) starts[part] += starts[part - 1]
  const count = starts[starts.length - 1]
  const entries = new Int32Array(count)
  const places = new Int32Array(count)
  for (let entry = from; entry < end; entry++) {
    if (!isIn(entry)) continue
    const place = hashes[entry] & mask
    const at = starts[place >> shift]++
    entries[at] = entry
    places[at] = place
  }
  for (let i = 0; i < count; i++) {
    let slot = places[i]
    while (slots[slot] !== 0) slot = (slot + 1) & mask
    slots[slot] = entries[i] + 1
  }
  return count
}
