/** A sample as all encoders write it: a value, then a time of this era, which takes six bytes. */

/** Bytes of the message Sample, and of the field that it is in a series. */
export const PLAIN_BYTES = 16
export const PLAIN_FIELD_BYTES = 18
/** Field 2, length-delimited: of a series a sample. */
export const SAMPLE_TAG = 0x12
export const VALUE_TAG = 0x09
export const TIME_TAG = 0x10
/** The continuation bits of the first four bytes of a time. */
export const CONTINUED = 0x80808080 | 0
/** All bits of an exponent, in the high half of a value: it is not finite. */
export const EXPONENT = 0x7ff00000
const TWO_28 = 268435456

/** Milliseconds since the epoch, from the 28 bits that four bytes of a time hold, and the 14 of the other two. */
export function timeOf(low28: number, high14: number): number {
  return high14 * TWO_28 + low28
}

/** The time of the message Sample in view[start, start + 16); -1 when it is written in another way. The value's bits are at `start + 1`. */
export function plainTime(view: DataView, start: number): number {
  if (view.getUint8(start) !== VALUE_TAG || view.getUint8(start + 9) !== TIME_TAG) return -1
  const word = view.getInt32(start + 10, true)
  const fifth = view.getUint8(start + 14)
  const sixth = view.getUint8(start + 15)
  if ((word & CONTINUED) !== CONTINUED || fifth < 0x80 || sixth >= 0x80) return -1
  const low28 = (word & 0x7f) | ((word >>> 1) & 0x3f80) | ((word >>> 2) & 0x1fc000) | ((word >>> 3) & 0xfe00000)
  return timeOf(low28, (fifth & 0x7f) | (sixth << 7))
}
