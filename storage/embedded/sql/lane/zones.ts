/**
 * What is known of each 64 values of a block in a row, so that a statement need not look at them one by one. Made for blocks that a second statement reads: their values
 * never change, and the cache keeps them (and counts their zones from the start, read/samples/sample-block.ts).
 */
import type { Integers } from 'svcdb/lib/columns'

const SHIFT = 6
export const ZONE = 1 << SHIFT

export interface Zones<A extends Float64Array | Int32Array = Float64Array> {
  /** Of the finite values; infinite the other way where there are none. */
  min: A
  max: A
  /** Not finite where some value is not. */
  sum: A
}

/** The sum of a zone of larger integers may not be one of 32 bits. */
const MOST = 2 ** 31 / ZONE - 1

/** Read by one statement so far, or its zones; none for integers that are too large. */
const known = new WeakMap<Float64Array | Integers, Zones | Zones<Int32Array> | 'read' | 'none'>()

/** The zones of the blocks that one statement reads. */
export class BlockZones {
  /** Weak: of values that are not kept only the memory is used again. */
  private readonly own = new WeakMap<Float64Array | Integers, Zones | Zones<Int32Array> | 'none'>()

  doubles(values: Float64Array): Zones | undefined {
    return this.of(values, () => zonesOf(values)) as Zones | undefined
  }

  integers(values: Integers): Zones<Int32Array> | undefined {
    return this.of(values, () => integerZones(values)) as Zones<Int32Array> | undefined
  }

  private of(values: Float64Array | Integers, make: () => Zones | Zones<Int32Array> | undefined): Zones | Zones<Int32Array> | undefined {
    let zones = this.own.get(values)
    if (zones === undefined) {
      const before = known.get(values)
      if (before === undefined) known.set(values, 'read')
      else if (before === 'read') known.set(values, (zones = make() ?? 'none'))
      else zones = before
      this.own.set(values, (zones ??= 'none'))
    }
    return zones === 'none' ? undefined : zones
  }
}

/** The zone of a value; those at the end of a block may have none. */
export const zoneOf = (at: number): number => at >> SHIFT
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

function integerZones(values: Integers): Zones<Int32Array> | undefined {
  const count = values.length >> SHIFT
  const zones = { min: new Int32Array(count), max: new Int32Array(count), sum: new Int32Array(count) }
  for (let zone = 0; zone < count; zone++) {
    const first = zone << SHIFT
    let [min, max, sum] = [values[first], values[first], 0]
    for (let i = first; i < first + ZONE; i++) {
      const value = values[i]
      sum += value
      if (value < min) min = value
      if (value > max) max = value
    }
    if (min < -MOST || max > MOST) return undefined
    zones.min[zone] = min
    zones.max[zone] = max
    zones.sum[zone] = sum
  }
  return zones
}
