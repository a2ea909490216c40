/** The time at the end of a line, in nanoseconds. */
import { Int64, POW10 } from 'svcdb/lib/numbers'

/** The unit of a write's times; `auto`: that of each time by its size, as InfluxDB 3 tells it. */
export type Precision = 'ns' | 'us' | 'ms' | 's' | 'm' | 'h' | 'auto'

/** Digits behind the unit that belong to the nanosecond part of a time, and the factor of what stands before. */
interface Unit {
  tailDigits: number
  leadFactor: number
}

const UNITS: Record<Exclude<Precision, 'auto'>, Unit> = {
  ns: { tailDigits: 9, leadFactor: 1 },
  us: { tailDigits: 6, leadFactor: 1 },
  ms: { tailDigits: 3, leadFactor: 1 },
  s: { tailDigits: 0, leadFactor: 1 },
  m: { tailDigits: 0, leadFactor: 60 },
  h: { tailDigits: 0, leadFactor: 3600 },
}

export class LineTime extends Int64 {
  private unit: Unit | undefined = UNITS.ns

  set precision(precision: Precision) {
    this.unit = precision === 'auto' ? undefined : UNITS[precision]
  }

  /** Reads the digits [from, to). @returns whether the time fits 64 bits. */
  read(bytes: Uint8Array, from: number, to: number, negative: boolean): boolean {
    const { tailDigits, leadFactor } = this.unit ?? unitBySize(number(bytes, from, to))
    const split = Math.max(from, to - tailDigits)
    return this.setSeconds(number(bytes, from, split) * leadFactor, number(bytes, split, to) * POW10[9 - tailDigits], negative)
  }
}

function number(bytes: Uint8Array, from: number, to: number): number {
  let value = 0
  for (let i = from; i < to; i++) value = value * 10 + (bytes[i] - 48)
  return value
}

/** Seconds until the year 2128, and of smaller units as many. */
function unitBySize(time: number): Unit {
  return time < 5e9 ? UNITS.s : time < 5e12 ? UNITS.ms : time < 5e15 ? UNITS.us : UNITS.ns
}
