/** The statements about triggers: CREATE, SHOW, DROP, ALTER. */
import { type Condition, ConditionParser, conditionText, nameText, RESERVED, stringText } from './condition.ts'
import { DURATION_UNITS, durationOf, durationText } from './duration.ts'
import { Scanner } from './scanner.ts'

export type Channel = { kind: 'log' } | { kind: 'webhook'; url: string }

/** Signals of several triggers whose points lie within a span of time. */
export interface Composite {
  kind: 'signals'
  /** Names of triggers; each has to fire. */
  members: readonly string[]
  /** Nanoseconds. */
  within: bigint
  /** Tags that the signals have in common. */
  by: readonly string[]
}

export interface CreateTrigger {
  kind: 'create'
  name: string
  /** `signals` of a composite. */
  measurement: string
  condition: Condition | Composite
  delivery: readonly Channel[]
  /** Nanoseconds; undefined = the default. */
  cooldown: bigint | undefined
}

type Statement = CreateTrigger | { kind: 'show' } | { kind: 'drop'; name: string } | { kind: 'alter'; name: string; enabled: boolean }

export interface StatementLimits {
  /** Of UTF-8. */
  maxBytes: number
  maxComparisons: number
  maxDepth: number
  maxChannels: number
}

/** Of names of triggers, measurements, fields and tags, in bytes, as of names in points. */
const MAX_NAME = 256
/** A year. */
const MAX_COOLDOWN = 31_536_000_000_000_000n
const SIGNALS = 'SIGNALS'
const MAX_MEMBERS = 16
const MAX_BY = 8
const STATEMENTS = 'CREATE TRIGGER, SHOW TRIGGERS, DROP TRIGGER or ALTER TRIGGER'
const CHANNELS = "log or webhook('https://...')"
/** Clauses that other systems have. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  WHERE: 'there is no WHERE clause: conditions on tags stand in WHEN',
  SEVERITY: 'there is no SEVERITY clause: it follows from the value',
  ACTION: 'there is no ACTION clause: DELIVER names the channels',
}

/** @throws BAD_REQUEST saying where the statement is wrong and what may stand there. */
export function parseStatement(text: string, limits: StatementLimits): Statement {
  const scanner = new Scanner(text)
  if (text.length > limits.maxBytes || Buffer.byteLength(text) > limits.maxBytes) {
    throw scanner.refuse(`a statement of at most ${limits.maxBytes} bytes`, 'triggers.max_statement_bytes is the limit', Math.min(text.length, limits.maxBytes))
  }
  const statement = new StatementParser(scanner, limits).parse()
  return statement
}

class StatementParser {
  private readonly scanner: Scanner
  private readonly limits: StatementLimits

  constructor(scanner: Scanner, limits: StatementLimits) {
    this.scanner = scanner
    this.limits = limits
  }

  parse(): Statement {
    const { scanner } = this
    if (scanner.keyword('CREATE')) return this.create()
    if (scanner.keyword('SHOW')) {
      scanner.require('TRIGGERS')
      return this.end({ kind: 'show' })
    }
    if (scanner.keyword('DROP')) {
      scanner.require('TRIGGER')
      return this.end({ kind: 'drop', name: this.triggerName() })
    }
    if (scanner.keyword('ALTER')) {
      scanner.require('TRIGGER')
      const name = this.triggerName()
      const enabled = scanner.keyword('ENABLE')
      if (!enabled) scanner.require('DISABLE', 'a trigger is altered by ENABLE or DISABLE')
      return this.end({ kind: 'alter', name, enabled })
    }
    throw scanner.refuse(STATEMENTS)
  }

  private create(): CreateTrigger {
    const { scanner, limits } = this
    scanner.require('TRIGGER')
    const name = this.triggerName()
    scanner.require('ON')
    const composite = this.composite()
    const measurement = composite === undefined ? this.measurementName() : SIGNALS.toLowerCase()
    if (composite === undefined) this.requireClause('WHEN', 'WHEN')
    const condition = composite ?? new ConditionParser(scanner, limits).parse()
    const delivery = scanner.keyword('DELIVER') ? this.channels() : []
    const cooldown = scanner.keyword('COOLDOWN') ? this.cooldown() : undefined
    const first = composite === undefined ? 'AND, OR, ' : composite.by.length === 0 ? 'BY, ' : ''
    const behind = cooldown !== undefined ? '' : delivery.length > 0 ? '",", COOLDOWN or ' : `${first}DELIVER, COOLDOWN or `
    return this.end({ kind: 'create', name, measurement, condition, delivery, cooldown }, behind)
  }

  /** `SIGNALS (a, b) WITHIN INTERVAL '5m' BY (host)`; undefined = it is the name of a measurement. */
  private composite(): Composite | undefined {
    const { scanner } = this
    const { at } = scanner
    if (!scanner.keyword(SIGNALS) || !scanner.symbol('(')) {
      scanner.at = at
      return undefined
    }
    const members = this.names('the name of a trigger', MAX_MEMBERS, () => scanner.plainName())
    if (members.length < 2) throw scanner.refuse('"," and the name of another trigger', 'a composite is of at least two', scanner.at - 1)
    scanner.require('WITHIN', "such as WITHIN INTERVAL '5m'")
    const within = this.interval('WITHIN')
    if (!scanner.keyword('BY')) return { kind: 'signals', members, within, by: [] }
    scanner.requireSymbol('(', 'such as BY (host)')
    return { kind: 'signals', members, within, by: this.names('the name of a tag', MAX_BY, () => scanner.name()) }
  }

  /** Up to ")". */
  private names(expected: string, most: number, next: () => { text: string; at: number } | undefined): string[] {
    const { scanner } = this
    const names: string[] = []
    do {
      const name = next()
      if (name === undefined || name.text === '') throw scanner.refuse(expected)
      if (Buffer.byteLength(name.text) > MAX_NAME) throw scanner.refuse(`a name of at most ${MAX_NAME} bytes`, undefined, name.at)
      if (names.includes(name.text)) throw scanner.refuse('each name once', undefined, name.at)
      if (names.length >= most) throw scanner.refuse(`at most ${most} names`, undefined, name.at)
      names.push(name.text)
    } while (scanner.symbol(','))
    if (!scanner.symbol(')')) throw scanner.refuse('"," or ")"')
    return names
  }

  private requireClause(word: string, expected: string): void {
    const { scanner } = this
    if (scanner.keyword(word)) return
    const next = scanner.peek()
    throw scanner.refuse(
      expected,
      next === undefined && !scanner.ended ? 'a name with other characters stands in double quotes' : ELSEWHERE[next?.toUpperCase() ?? ''],
    )
  }

  private end<T extends Statement>(statement: T, before = ''): T {
    const { at } = this.scanner
    if (this.scanner.symbol(';') && !this.scanner.ended) this.scanner.at = at
    if (!this.scanner.ended) throw this.scanner.refuse(`${before}the end of the statement`, ELSEWHERE[this.scanner.peek()?.toUpperCase() ?? ''])
    return statement
  }

  private triggerName(): string {
    const { scanner } = this
    const expected = 'the name of a trigger'
    const hint = 'it has letters, digits and "_" only'
    const name = scanner.plainName()
    if (name === undefined) throw scanner.refuse(expected, hint)
    if (scanner.at < scanner.text.length && !/\s/.test(scanner.text[scanner.at])) throw scanner.refuse(expected, hint, scanner.at)
    if (name.text.length > MAX_NAME) throw scanner.refuse(`a name of at most ${MAX_NAME} characters`, undefined, name.at)
    return name.text
  }

  private measurementName(): string {
    const { scanner } = this
    const name = scanner.name()
    const expected = 'the name of a measurement'
    const hint = 'one with other characters than letters, digits, "_", "." and ":", or that is a keyword, stands in double quotes'
    if (name === undefined) throw scanner.refuse(expected, hint)
    if (!name.quoted && RESERVED.has(name.text.toUpperCase())) throw scanner.refuse(expected, hint, name.at)
    if (name.text === '' || Buffer.byteLength(name.text) > MAX_NAME) throw scanner.refuse(`a name of 1 to ${MAX_NAME} bytes`, undefined, name.at)
    return name.text
  }

  private channels(): Channel[] {
    const { scanner, limits } = this
    const channels: Channel[] = []
    do {
      const at = scanner.ended ? scanner.text.length : scanner.at
      const channel = this.channel()
      if (channels.some((other) => channelText(other) === channelText(channel))) throw scanner.refuse('each channel once', undefined, at)
      if (channels.length >= limits.maxChannels) throw scanner.refuse(`at most ${limits.maxChannels} channels`, 'triggers.max_channels is the limit', at)
      channels.push(channel)
    } while (scanner.symbol(','))
    return channels
  }

  private channel(): Channel {
    const { scanner } = this
    const word = scanner.peek()
    if (word?.toLowerCase() === 'log') {
      scanner.keyword('LOG')
      return { kind: 'log' }
    }
    if (word?.toLowerCase() !== 'webhook') throw scanner.refuse(`a channel: ${CHANNELS}`, 'the channels are log and webhook')
    scanner.keyword('WEBHOOK')
    scanner.requireSymbol('(', CHANNELS)
    const url = scanner.string()
    if (url === undefined) throw scanner.refuse('a URL in single quotes', CHANNELS)
    scanner.requireSymbol(')', CHANNELS)
    return { kind: 'webhook', url: url.text }
  }

  private cooldown(): bigint {
    return this.interval('COOLDOWN')
  }

  private interval(clause: string): bigint {
    const { scanner } = this
    scanner.require('INTERVAL', `such as ${clause} INTERVAL '5m'`)
    const text = scanner.string()
    if (text === undefined) throw scanner.refuse("a duration in single quotes, such as '5m'")
    const nanos = durationOf(text.text)
    if (nanos === undefined) throw scanner.refuse("a duration such as '90s', '5 minutes' or '1h 30m'", `the units are ${DURATION_UNITS}`, text.at)
    if (nanos > MAX_COOLDOWN) throw scanner.refuse('a duration of at most 365d', undefined, text.at)
    return nanos
  }
}

/** As it stands in a statement and in listings. */
export function channelText(channel: Channel): string {
  return channel.kind === 'log' ? 'log' : `webhook(${stringText(channel.url)})`
}

/** As it would be written: read again, it is the same statement. */
export function createText({ name, measurement, condition, delivery, cooldown }: Omit<CreateTrigger, 'kind'>): string {
  const deliver = delivery.length === 0 ? '' : ` DELIVER ${delivery.map(channelText).join(', ')}`
  const pause = cooldown === undefined ? '' : ` COOLDOWN INTERVAL '${durationText(cooldown)}'`
  const on = condition.kind === 'signals' ? compositeText(condition) : `${nameText(measurement)} WHEN ${conditionText(condition)}`
  return `CREATE TRIGGER ${name} ON ${on}${deliver}${pause}`
}

export function compositeText({ members, within, by }: Composite): string {
  const grouped = by.length === 0 ? '' : ` BY (${by.map(nameText).join(', ')})`
  return `SIGNALS (${members.join(', ')}) WITHIN INTERVAL '${durationText(within)}'${grouped}`
}
