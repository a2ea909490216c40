/** Time zones: offsets and wall clocks, from the ICU data of the runtime. */
import { daysFromCivil, floorDiv } from './instant.ts'

const SECOND = 1_000_000_000n
const QUARTER = 900
/** Offsets kept a zone: 42 days of quarters; more would be memory for nothing. */
const KEPT = 4096

/** A time zone of the IANA database; `zoneOf` keeps those that were used. */
export class Zone {
  readonly name: string
  private readonly format: Intl.DateTimeFormat
  /** Offset by quarter of an hour since the epoch: clocks change on quarters. */
  private readonly cache = new Map<number, number>()

  /** @throws RangeError for an unknown zone. */
  constructor(name: string) {
    this.name = name
    this.format = new Intl.DateTimeFormat('en-US', {
      timeZone: name,
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      era: 'short',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
  }

  /** Seconds east of UTC at an instant given in seconds. */
  offset(seconds: number): number {
    const quarter = Math.floor(seconds / QUARTER)
    const known = this.cache.get(quarter)
    if (known !== undefined) return known
    const offset = this.measure(quarter * QUARTER)
    if (this.cache.size >= KEPT) this.cache.clear()
    this.cache.set(quarter, offset)
    return offset
  }

  private measure(seconds: number): number {
    const part: Record<string, string> = {}
    for (const { type, value } of this.format.formatToParts(seconds * 1000)) part[type] = value
    const year = part.era.startsWith('B') ? 1 - Number(part.year) : Number(part.year)
    const local = daysFromCivil(year, Number(part.month), Number(part.day)) * 86_400 + Number(part.hour) * 3600 + Number(part.minute) * 60 + Number(part.second)
    return local - seconds
  }

  /** The zone's winter offset in seconds around an instant: the smaller of January's and July's. */
  standardOffset(seconds: number): number {
    const year = new Date(seconds * 1000).getUTCFullYear()
    return Math.min(this.offset(daysFromCivil(year, 1, 1) * 86_400), this.offset(daysFromCivil(year, 7, 1) * 86_400))
  }

  /** Wall clock (ns, as if UTC) of an instant (ns). */
  toLocal(ns: bigint): bigint {
    return ns + BigInt(this.offset(Number(floorDiv(ns, SECOND)))) * SECOND
  }

  /** The first instant whose wall clock is at or past `local`: of a repeated time the first, of a skipped time the moment of the change. */
  toInstant(local: bigint): bigint {
    const seconds = Number(floorDiv(local, SECOND))
    const before = this.offset(seconds - 86_400)
    const after = this.offset(seconds + 86_400)
    const candidates = before === after ? [before] : [Math.max(before, after), Math.min(before, after)]
    for (const offset of candidates) {
      const instant = local - BigInt(offset) * SECOND
      if (this.toLocal(instant) === local) return instant
    }
    return this.firstAtOrAfter(local, local - BigInt(candidates[0]) * SECOND, local - BigInt(candidates.at(-1) as number) * SECOND)
  }

  /** Bisects for the transition that skips `local`, to the second. */
  private firstAtOrAfter(local: bigint, low: bigint, high: bigint): bigint {
    let a = Number(floorDiv(low, SECOND)) - 1
    let b = Number(floorDiv(high, SECOND)) + 1
    while (b - a > 1) {
      const middle = Math.floor((a + b) / 2)
      if (this.toLocal(BigInt(middle) * SECOND) >= local) b = middle
      else a = middle
    }
    return BigInt(b) * SECOND
  }
}

const zones = new Map<string, Zone>()

/** The zone of that name, kept; undefined when there is none. */
export function zoneOf(name: string): Zone | undefined {
  let zone = zones.get(name)
  if (zone === undefined) {
    try {
      zone = new Zone(name)
    } catch {
      return undefined
    }
    zones.set(name, zone)
  }
  return zone
}
