/**
 * What is known of each 64 values of a block in a row, so that a statement need not look at them one by one. Made for blocks that a second statement reads: their values
 * never change, and the cache keeps them (and counts the zones of doubles from the start, read/samples/sample-block.ts).
 */

const SHIFT = 6
export const ZONE = 1 << SHIFT

export interface Zones {
  /** Of the finite values; infinite the other way where there are none. */
  min: Float64Array
  max: Float64Array
  /** Not finite where some value is not. */
  sum: Float64Array
}

/** Read by one statement so far, or its zones. */
const known = new WeakMap<Float64Array, Zones | 'read'>()

/** The zones of the blocks that one statement reads. */
export class BlockZones {
  private readonly own = new Map<Float64Array, Zones | undefined>()

  of(values: Float64Array): Zones | undefined {
    const own = this.own.get(values)
    if (own !== undefined || this.own.has(values)) return own
    const before = known.get(values)
    const zones = before === 'read' ? zonesOf(values) : before
    known.set(values, zones ?? 'read')
    this.own.set(values, zones)
    return zones
  }
}

/** The first zone that lies wholly in [from, to), and the one after the last; none where the first is not below. */
export const firstZone = (from: number): number => (from + ZONE - 1) >> SHIFT
export const endZone = (to: number): number => to >> SHIFT

function zonesOf(values: Float64Array): Zones {
  const count = values.length >> SHIFT
  const zones = { min: new Float64Array(count), max: new Float64Array(count), sum: new Float64Array(count) }
  for (let zone = 0; zone < count; zone++) {
    let [min, max, sum] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0]
    for (let i = zone << SHIFT; i < (zone + 1) << SHIFT; i++) {
      const value = values[i]
      sum += value
      if (value - value !== 0) continue
      if (value < min) min = value
      if (value > max) max = value
    }
    zones.min[zone] = min
    zones.max[zone] = max
    zones.sum[zone] = sum
  }
  return zones
}
