/** Statements by chance over the sample points, each of a type that is known: what the documents name, nested in each other. */
import type { Random } from '../../conformance/random.ts'

type Kind = 'float' | 'int' | 'text' | 'bool' | 'time' | 'decimal'
const KINDS: readonly Kind[] = ['float', 'int', 'text', 'bool', 'time', 'decimal']

const COLUMNS: Record<string, Record<Kind, readonly string[]>> = {
  cpu: { float: ['usage', 'idle'], int: ['procs'], text: ['host', 'region', 'note'], bool: ['up'], time: ['_time'], decimal: ['price'] },
  hits: { float: ['value'], int: [], text: ['host', 'code'], bool: [], time: ['_time'], decimal: [] },
}
const WIDTHS = ["'1h'", "'90 minutes'", "'1d'", "INTERVAL '2 hours'", "'1w'"]
const ZONES = ['', ", 'Europe/Berlin'", ", 'Asia/Kolkata'", ", ''", ", 'America/New_York', '2023-12-31T03:00:00'"]
const CALENDARS = ["'1mo'", "'1d'", "'2d'", "'1y'", "'1w'"]
const UNITS = ['hour', 'day', 'week', 'month', 'quarter', 'year', 'minute']

export interface Statement {
  text: string
  /** All rows are in an order that the statement says. */
  ordered: boolean
}

interface Source {
  from: string
  /** Columns by kind. */
  columns: Record<Kind, readonly string[]>
}

export class TypedStatements {
  private readonly random: Random

  constructor(random: Random) {
    this.random = random
  }

  statement(): Statement {
    const form = this.random.below(10)
    if (form < 3) return this.plain()
    if (form < 6) return this.grouped()
    if (form < 8) return this.windowed()
    return form === 8 ? this.united() : this.distinct()
  }

  private plain(): Statement {
    const source = this.source(2)
    const items = this.items(source, 3)
    return this.finished(`SELECT ${items.join(', ')} FROM ${source.from}${this.where(source)}`)
  }

  private grouped(): Statement {
    const source = this.source(2)
    const keys = Array.from({ length: this.random.below(3) }, () => this.value(this.random.pick(['text', 'int', 'time', 'bool'] as const), source, 1))
    const aggregates = Array.from(
      { length: 1 + this.random.below(3) },
      () => this.aggregate(source) + (this.random.chance(0.2) ? ` FILTER (WHERE ${this.value('bool', source, 1)})` : ''),
    )
    const sets =
      keys.length === 2 && this.random.chance(0.2)
        ? ' GROUP BY ROLLUP(1, 2)'
        : keys.length === 0
          ? ''
          : this.random.chance(0.5)
            ? ' GROUP BY ALL'
            : ` GROUP BY ${keys.map((_, i) => i + 1).join(', ')}`
    const having = this.random.chance(0.2) ? ' HAVING count(*) > 2' : ''
    return this.finished(`SELECT ${[...keys, ...aggregates].join(', ')} FROM ${source.from}${this.where(source)}${sets}${having}`)
  }

  private windowed(): Statement {
    const source = this.source(0)
    // A total order within a partition, or answers depend on which row comes first.
    const order = `_time${this.random.chance(0.3) ? ' DESC' : ''}`
    const over = `OVER (${this.random.chance(0.8) ? 'PARTITION BY host ' : ''}ORDER BY ${order}, host${this.random.pick(['', ' ROWS BETWEEN 2 PRECEDING AND CURRENT ROW', ' ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING'])})`
    const plain = `OVER (PARTITION BY host ORDER BY ${order})`
    const x = this.value(this.random.pick(['float', 'int'] as const), source, 1)
    const calls = [
      `row_number() ${plain}`,
      `rank() ${plain}`,
      `lag(${x}) ${plain}`,
      `lead(${x}, 2) ${plain}`,
      `first_value(${x}) ${over}`,
      `sum(${x}) ${over}`,
      `avg(${x}) ${over}`,
      `count(*) ${over}`,
      `min(${x}) ${over}`,
      `rolling_mean(${x}, 4) ${plain}`,
      `pct_change(${x} + 1000) ${plain}`,
      `diff(${x}) ${plain}`,
      `zscore(${x}) ${plain}`,
    ]
    const picked = Array.from({ length: 1 + this.random.below(2) }, () => this.random.pick(calls))
    return this.finished(`SELECT host, _time, ${picked.join(', ')} FROM ${source.from}${this.where(source)}`)
  }

  private united(): Statement {
    const [a, b] = [this.source(1), this.source(1)]
    const kinds = [this.random.pick(KINDS), this.random.pick(['int', 'text'] as const)] as const
    const select = (source: Source): string => `SELECT ${kinds.map((kind) => this.value(kind, source, 1)).join(', ')} FROM ${source.from}${this.where(source)}`
    const word = this.random.pick(['UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT'])
    return this.finished(`${select(a)} ${word} ${select(b)}`)
  }

  private distinct(): Statement {
    const source = this.source(1)
    const keys = [this.value('text', source, 1), this.value(this.random.pick(['int', 'bool', 'text'] as const), source, 1)]
    return this.finished(`SELECT DISTINCT ${keys.join(', ')} FROM ${source.from}${this.where(source)}`)
  }

  private finished(text: string): Statement {
    if (!this.random.chance(0.6)) return { text, ordered: false }
    return {
      text: `${text} ORDER BY ALL${this.random.pick(['', ' DESC', ' NULLS FIRST'])}${this.random.chance(0.3) ? ` LIMIT ${this.random.below(20)}` : ''}`,
      ordered: true,
    }
  }

  private items(source: Source, count: number): string[] {
    return Array.from({ length: 1 + this.random.below(count) }, () => this.value(this.random.pick(KINDS), source, 2))
  }

  private source(depth: number): Source {
    const table = this.random.pick(['cpu', 'cpu', 'hits'])
    const base: Source = { from: table, columns: COLUMNS[table] }
    if (depth === 0 || this.random.chance(0.6)) return base
    const draw = this.random.below(3)
    if (draw === 0) {
      const kinds: Kind[] = ['float', 'int', 'text', 'time']
      const items = kinds.map((kind) => `${this.value(kind, base, 1)} AS x_${kind}`)
      const columns = Object.fromEntries(KINDS.map((kind) => [kind, kinds.includes(kind) ? [`x_${kind}`] : []])) as Record<Kind, string[]>
      return { from: `(SELECT ${items.join(', ')} FROM ${base.from}${this.where(base)}) s`, columns }
    }
    if (draw === 1) {
      const prefixed = (name: string, columns: readonly string[]): string[] => columns.map((column) => `${name}.${column}`)
      const columns = Object.fromEntries(KINDS.map((kind) => [kind, [...prefixed('a', COLUMNS.cpu[kind]), ...prefixed('b', COLUMNS.hits[kind])]])) as Record<
        Kind,
        string[]
      >
      return { from: `(SELECT * FROM cpu WHERE procs < 9) a ${this.random.pick(['JOIN', 'LEFT JOIN'])} hits b ON a.host = b.host`, columns }
    }
    const condition = `host IN (SELECT host FROM hits WHERE value > ${this.random.below(500)})`
    return { ...base, from: `(SELECT * FROM ${table} WHERE ${condition}) s` }
  }

  private where(source: Source): string {
    if (!this.random.chance(0.6)) return ''
    const time = source.columns.time[0]
    const bound = this.random.pick(["'2023-12-31T00:00:00Z'", "TIMESTAMP '2024-01-01 06:30:00'", "DATE '2024-01-01'"])
    return ` WHERE ${this.random.chance(0.4) && time !== undefined ? `${time} ${this.random.pick(['>=', '<', '>'])} ${bound}` : this.value('bool', source, 2)}`
  }

  private aggregate(source: Source): string {
    const number = (): string => this.value(this.random.pick(['float', 'int', 'decimal'] as const), source, 1)
    const float = (): string => this.value('float', source, 1)
    const time = source.columns.time[0] ?? '_time'
    return this.random.pick([
      () => 'count(*)',
      () => `count(${this.value(this.random.pick(KINDS), source, 1)})`,
      () => `sum(${number()})`,
      () => `avg(${number()})`,
      () => `min(${this.value(this.random.pick(KINDS), source, 1)})`,
      () => `max(${this.value(this.random.pick(KINDS), source, 1)})`,
      () => `count(DISTINCT ${this.value(this.random.pick(['text', 'int', 'bool'] as const), source, 1)})`,
      () => `median(${float()})`,
      () => `quantile_cont(${float()}, 0.${this.random.below(99) + 1})`,
      () => `quantile_disc(${this.value('int', source, 1)}, 0.${this.random.below(99) + 1})`,
      () => `stddev(${float()})`,
      () => `var_pop(${float()})`,
      () => `max(${time})`,
      () => `bool_or(${this.value('bool', source, 1)})`,
    ])()
  }

  private value(kind: Kind, source: Source, depth: number): string {
    const columns = source.columns[kind]
    if (depth === 0 || this.random.chance(0.35)) return columns.length > 0 && this.random.chance(0.85) ? this.random.pick(columns) : this.literal(kind)
    const v = (of: Kind): string => this.value(of, source, depth - 1)
    const n = (most: number): number => this.random.below(most)
    const either = (): string => `CASE WHEN ${v('bool')} THEN ${v(kind)} ELSE ${v(kind)} END`
    const choices: Record<Kind, (() => string)[]> = {
      float: [
        ...[
          () => `(${v('float')} ${this.random.pick(['+', '-', '*'])} ${v('float')})`,
          () => `(${v('float')} / ${1 + n(7)})`,
          () => `(${v('int')} / ${1 + n(7)})`,
        ],
        ...[
          () => `round(${v('float')}${this.random.pick(['', ', 1'])})`,
          () => `abs(${v('float')})`,
          () => `sqrt(abs(${v('float')}))`,
          () => `floor(${v('float')})`,
        ],
        ...[
          either,
          () => `coalesce(${v('float')}, ${v('float')})`,
          () => `CAST(${v('int')} AS DOUBLE)`,
          () => `CAST(${v('decimal')} AS DOUBLE)`,
          () => `nullif(${v('float')}, 1.5)`,
        ],
      ],
      int: [
        ...[
          () => `(${v('int')} ${this.random.pick(['+', '-', '*'])} ${v('int')})`,
          () => `(${v('int')} % ${1 + n(9)})`,
          () => `(${v('int')} // ${1 + n(9)})`,
          () => `-(${v('int')})`,
        ],
        ...[
          () => `length(${v('text')})`,
          () => `CAST(${v('float')} AS BIGINT)`,
          () => `extract(${this.random.pick(['hour', 'day', 'dow', 'month', 'year', 'minute'])} FROM ${v('time')})`,
        ],
        ...[either, () => `coalesce(${v('int')}, ${n(5)})`, () => `abs(${v('int')})`, () => `CAST(${v('bool')} AS BIGINT)`],
      ],
      text: [
        ...[
          () => `(${v('text')} || ${v('text')})`,
          () => `upper(${v('text')})`,
          () => `lower(${v('text')})`,
          () => `substring(${v('text')}, ${1 + n(2)}, ${n(4)})`,
        ],
        ...[
          either,
          () => `coalesce(${v('text')}, ${v('text')})`,
          () => `CAST(${v('int')} AS VARCHAR)`,
          () => `replace(${v('text')}, 'n', 'm')`,
          () => `left(${v('text')}, 2)`,
        ],
      ],
      bool: [
        ...[
          () => this.compared(v),
          () => this.compared(v),
          () => `(${v('bool')} AND ${v('bool')})`,
          () => `(${v('bool')} OR ${v('bool')})`,
          () => `(NOT ${v('bool')})`,
        ],
        ...[
          () => `(${v(this.random.pick(KINDS))} IS NULL)`,
          () => `(${v('int')} IN (1, 2, ${this.random.pick(['3', 'NULL'])}))`,
          () => `(${v('text')} NOT IN ('a', 'b'))`,
        ],
        ...[
          () => `(${v('text')} LIKE '${this.random.pick(['a%', '%_', 'n_', '%\\\\%', '%1', "%''%", 'n%3'])}')`,
          () => `(${v('float')} BETWEEN ${n(10)} AND ${v('float')})`,
        ],
        ...[() => `(${v('int')} IS DISTINCT FROM ${v('int')})`, () => `starts_with(${v('text')}, 'n')`, () => `regexp_matches(${v('text')}, '^[ab]')`],
      ],
      time: [
        ...[() => `time_bucket(${this.random.pick(WIDTHS)}, ${v('time')})`, () => `date_trunc('${this.random.pick(UNITS)}', ${v('time')})`],
        ...[() => `(${v('time')} ${this.random.pick(['+', '-'])} INTERVAL ${this.random.pick(["'1 hour'", "'3 days'", "'1 month'", "'90 seconds'"])})`],
        () => `time_bucket(${this.random.pick(CALENDARS)}, ${source.columns.time[0] ?? v('time')}${this.random.pick(ZONES)})`,
      ],
      decimal: [
        () => `(${v('decimal')} + ${v('decimal')})`,
        () => `(${v('decimal')} * ${1 + n(3)})`,
        () => `CAST(${v('int')} AS DECIMAL(20, 2))`,
        () => `-(${v('decimal')})`,
      ],
    }
    return this.random.pick(choices[kind])()
  }

  private compared(v: (kind: Kind) => string): string {
    const kind = this.random.pick(KINDS)
    return `(${v(kind)} ${this.random.pick(['=', '<>', '<', '>', '<=', '>='])} ${v(kind)})`
  }

  private literal(kind: Kind): string {
    const n = (most: number): number => this.random.below(most)
    switch (kind) {
      case 'float':
        return this.random.pick([`${n(40)}.5e0`, `${n(9)}e0`, '-1.25e0', '0e0'])
      case 'int':
        return String(n(20))
      case 'text':
        return this.random.pick(["'a'", "'n1'", "'x\\y'", "'it''s'", "''", "'é'"])
      case 'bool':
        return this.random.pick(['TRUE', 'FALSE'])
      case 'time':
        return this.random.pick(["TIMESTAMP_NS '2024-01-01 03:04:05.123456789'", "CAST(TIMESTAMP '2023-12-31 23:00:00' AS TIMESTAMP_NS)"])
      case 'decimal':
        return this.random.pick(['1.50', '-0.125', '12.0'])
    }
  }
}
