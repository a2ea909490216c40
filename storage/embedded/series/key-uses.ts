/**
 * The tag keys of each measurement, and how many of its live series use each: what is left of the keys is known without a walk.
 *
 * Invariant: a series is counted from the moment it has a number until it is given back, or its number is taken back.
 */

/** The tags of all series, as the series index keeps them: pairs of (key, value) of series s from offsets[s] to offsets[s + 1]. */
interface TagArrays {
  readonly offsets: Int32Array
  readonly tags: Int32Array
}

/** Of so many keys one is found by looking at all. */
const FEW_KEYS = 16

interface Uses {
  /** Symbols of keys in the order in which they were met, and how many series use each. */
  keys: number[]
  uses: number[]
  /** How many keys are in use. */
  used: number
  /** Symbol → place in `keys`, when they are many. */
  places: Map<number, number> | undefined
}

export class KeyUses {
  private readonly measurements: (Uses | undefined)[] = []

  /** The series has a number. */
  added(series: number, measurement: number, tags: TagArrays): void {
    this.measurements[measurement] ??= { keys: [], uses: [], used: 0, places: undefined }
    this.count(series, this.measurements[measurement] as Uses, tags, 1)
  }

  /** It has none any more. */
  removed(series: number, measurement: number, tags: TagArrays): void {
    const own = this.measurements[measurement]
    if (own === undefined) return
    this.count(series, own, tags, -1)
    if (own.used === 0) this.measurements[measurement] = undefined
  }

  /** Symbols of the keys in use. */
  keys(measurement: number): number[] {
    const own = this.measurements[measurement]
    return own === undefined ? [] : own.keys.filter((_, i) => own.uses[i] > 0)
  }

  /** How many keys are in use. */
  size(measurement: number): number {
    return this.measurements[measurement]?.used ?? 0
  }

  /** @param position that of the key among those of a series: it is mostly the same in all. */
  has(measurement: number, key: number, position: number): boolean {
    const own = this.measurements[measurement]
    if (own === undefined) return false
    const place = own.keys[position] === key ? position : placeOf(own, key)
    return place >= 0 && own.uses[place] > 0
  }

  private count(series: number, own: Uses, { offsets, tags }: TagArrays, by: 1 | -1): void {
    const { keys, uses } = own
    for (let i = offsets[series], end = offsets[series + 1], position = 0; i < end; i += 2, position++) {
      let place = position
      if (keys[place] !== tags[i]) {
        place = placeOf(own, tags[i])
        if (place < 0) place = begin(own, tags[i])
      }
      const before = uses[place]
      uses[place] = before + by
      if (before === 0) own.used++
      else if (before + by === 0) own.used--
    }
  }
}

function placeOf({ keys, places }: Uses, key: number): number {
  return places === undefined ? keys.indexOf(key) : (places.get(key) ?? -1)
}

function begin(own: Uses, key: number): number {
  const { keys, uses } = own
  const place = keys.push(key) - 1
  uses.push(0)
  if (own.places !== undefined) own.places.set(key, place)
  else if (keys.length > FEW_KEYS) own.places = new Map(keys.map((one, i) => [one, i]))
  return place
}
