/** Names of result types (`SqlColumn.type`) taken apart: `Struct("a": List(Int32), "b": decimal(10, 2))` and the like. */

const SIMPLE_NAMES = [
  ...(['Null', 'Boolean', 'Utf8', 'Binary', 'Float32', 'Float64', 'Date32', 'Interval'] as const),
  ...(['Int8', 'Int16', 'Int32', 'Int64', 'UInt8', 'UInt16', 'UInt32', 'UInt64'] as const),
]

/** Names of types without parameters. */
export type SimpleName = (typeof SIMPLE_NAMES)[number]

/** Seconds, milliseconds, microseconds or nanoseconds. */
export type TimeUnitName = 's' | 'ms' | 'us' | 'ns'

/** A type of `SqlColumn.type`, taken apart. */
export type ResultType =
  | { kind: 'simple'; name: SimpleName }
  | { kind: 'decimal'; precision: number; scale: number }
  | { kind: 'timestamp'; unit: TimeUnitName; zone: string | undefined }
  | { kind: 'time'; unit: 'us' | 'ns' }
  | { kind: 'list'; item: ResultType }
  | { kind: 'map'; key: ResultType; value: ResultType }
  | { kind: 'struct'; members: { name: string; type: ResultType }[] }

/** @throws Error for a text that is not the name of a result type. */
export function resultType(name: string): ResultType {
  const reader = new NameReader(name)
  const type = reader.read()
  reader.end()
  return type
}

class NameReader {
  private readonly source: string
  private at = 0

  constructor(source: string) {
    this.source = source
  }

  read(): ResultType {
    const [name] = this.match(/^[A-Za-z0-9]+/)
    if (!this.take('(')) return { kind: 'simple', name: SIMPLE_NAMES.find((one) => one === name) ?? this.fail() }
    switch (name) {
      case 'decimal': {
        const [, precision, scale] = this.match(/^(\d+), (\d+)\)/)
        return { kind: 'decimal', precision: Number(precision), scale: Number(scale) }
      }
      case 'Timestamp': {
        const [, unit, zone] = this.match(/^(s|ms|us|ns)(?:, ([^()]+))?\)/)
        return { kind: 'timestamp', unit: unit as TimeUnitName, zone }
      }
      case 'Time64':
        return { kind: 'time', unit: this.match(/^(us|ns)\)/)[1] as 'us' | 'ns' }
      case 'List': {
        const item = this.read()
        this.expect(')')
        return { kind: 'list', item }
      }
      case 'Map': {
        const key = this.read()
        this.expect(', ')
        const value = this.read()
        this.expect(')')
        return { kind: 'map', key, value }
      }
      case 'Struct':
        return this.struct()
      default:
        return this.fail()
    }
  }

  end(): void {
    if (this.at !== this.source.length) this.fail()
  }

  /** Members' names are JSON strings: they may hold anything. */
  private struct(): ResultType {
    const members: { name: string; type: ResultType }[] = []
    do {
      const [name] = this.match(/^"(?:[^"\\]|\\.)*"/)
      this.expect(': ')
      members.push({ name: JSON.parse(name) as string, type: this.read() })
    } while (this.take(', '))
    this.expect(')')
    return { kind: 'struct', members }
  }

  private match(pattern: RegExp): RegExpExecArray {
    const match = pattern.exec(this.source.slice(this.at)) ?? this.fail()
    this.at += match[0].length
    return match
  }

  private take(token: string): boolean {
    if (!this.source.startsWith(token, this.at)) return false
    this.at += token.length
    return true
  }

  private expect(token: string): void {
    if (!this.take(token)) this.fail()
  }

  private fail(): never {
    throw new Error(`cannot read type "${this.source}": it is not the name of a result type`)
  }
}
