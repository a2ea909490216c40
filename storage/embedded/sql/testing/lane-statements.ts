/** Statements by chance: those the lane answers, and some that look like them. */
import type { Random } from '../../../conformance/random.ts'

export interface LaneStatement {
  sql: string
  /** The same with a condition that only DuckDB understands. */
  inDuckDb: string
  /** ORDER BY leaves no two rows equal. */
  ordered: boolean
}

const STEP = 10_000_000_000n
const WIDTHS = [
  "INTERVAL '1 minute'",
  "INTERVAL '10 seconds'",
  "'5m'",
  "INTERVAL '1 hour'",
  'INTERVAL 7 SECOND',
  "INTERVAL '1 week'",
  "INTERVAL '2 days 3 hours'",
]
const FIELDS = ['u_a', 'u_b', 'n', 'u_i']

export class LaneStatements {
  private readonly random: Random
  private readonly start: bigint

  constructor(random: Random, start: bigint) {
    this.random = random
    this.start = start
  }

  /** @param outside may be a statement that the lane leaves alone. */
  statement(outside: boolean): LaneStatement {
    const { random } = this
    const measurement = random.pick(['cpu', 'cpu', 'one'])
    const fields = measurement === 'one' ? ['u_a'] : FIELDS
    if (random.chance(0.3)) return this.rows(measurement, fields, outside)
    const keys = this.keys()
    // Of one time a group has one row then.
    const alone = random.chance(0.6) && keys.some(({ key }) => key === 'host')
    const values = Array.from({ length: 1 + random.below(3) }, () => (random.chance(0.2) ? this.expression(fields, 0) : this.aggregate(fields, alone)))
    const strange = outside && random.chance(0.3)
    if (strange) values.push(this.strange())
    const named = values.map((value, i) =>
      random.chance(value.includes(' ') ? 0.3 : 0.5) ? value : `${value} AS ${random.pick(['v', 'w', 'x y'].map((name) => `"${name}${i}"`))}`,
    )
    const items = random.chance(0.8) ? [...keys.map(({ item }) => item), ...named] : [...named, ...keys.slice(0, 1).map(({ item }) => item)]
    const conditions = Array.from({ length: random.below(4) }, () => this.condition(fields, outside))
    const alias = random.chance(0.2) ? ' AS c' : ''
    const group = this.groupBy(keys, items)
    const order = this.orderBy(keys, items, values, outside)
    const having = random.chance(0.25) ? this.having(named, fields, outside) : ''
    // What is strange may be a field alone, by which all groups then.
    const ordered = order.ordered && !(strange && group === ' GROUP BY ALL')
    const limit = ordered && random.chance(0.3) ? ` LIMIT ${random.below(20)}${random.chance(0.5) ? ` OFFSET ${random.below(5)}` : ''}` : ''
    const text = (where: readonly string[]): string =>
      `SELECT ${items.join(', ')} FROM ${measurement}${alias}${where.length === 0 ? '' : ` WHERE ${where.join(' AND ')}`}${group}${having}${order.text}${limit}`
    return { sql: text(conditions), inDuckDb: text([...conditions, '1 = 1']), ordered }
  }

  /** By numbers that no group is likely to have: sums of doubles differ in their last bits. */
  private having(named: readonly string[], fields: readonly string[], outside: boolean): string {
    const { random } = this
    const aliases = named.flatMap((item) => /AS ("[^"]+")$/.exec(item)?.[1] ?? [])
    const term = (): string =>
      aliases.length > 0 && random.chance(0.4) ? random.pick(aliases) : random.chance(0.2) ? this.expression(fields, 1) : this.aggregate(fields)
    const condition = (): string => {
      const number = random.pick(['37.123', '0.3777', '49.987', '5', '1e7', '-3.21'])
      if (random.chance(0.1)) return random.pick(['1 = 1', '1 > 0', '2 BETWEEN 1 AND 3', '1 < 0', '0 = 0'])
      if (random.chance(0.2)) return `${term()} BETWEEN ${random.below(30)}.123 AND ${number}`
      if (random.chance(0.2)) return `${number} ${random.pick(['<', '>='])} ${term()}`
      return outside && random.chance(0.2)
        ? random.pick(["host > 'a'", 'count(*) > count(u_a)', 'NOT count(*) > 3', 'max(u_a) IS NULL'])
        : `${term()} ${random.pick(['>', '>=', '<', '<=', '<>', '='])} ${number}`
    }
    return ` HAVING ${Array.from({ length: 1 + random.below(2) }, condition).join(' AND ')}`
  }

  private rows(measurement: string, fields: readonly string[], outside: boolean): LaneStatement {
    const { random } = this
    const columns = ['_time', 'host', 'region', ...fields, ...(outside ? ['s', 'nothing'] : [])].filter(() => random.chance(0.5))
    const items = columns.map((column) => (random.chance(0.15) ? `${column} AS ${random.pick(['x', 'host', 'y z'].map((name) => `"${name}"`))}` : column))
    if (random.chance(0.3)) items.push(`${this.computed(fields, 0)} AS ${random.pick(['c', 'u_a', '"c d"'])}`)
    const all = items.length === 0 || random.chance(0.1)
    const conditions = Array.from({ length: random.below(4) }, () => this.condition(fields, outside))
    const how = (): string => random.pick(['', ' DESC', ' NULLS FIRST', ' DESC NULLS FIRST'])
    const ordered = random.chance(0.7) && !columns.includes('nothing') && items.every((item) => !item.includes('"host"'))
    const terms = [
      ...(random.chance(0.3) ? [random.pick(items.at(-1)?.endsWith(' AS c') ? ['c', ...fields] : fields)] : []),
      ...['_time', 'host', 'region'].sort(() => random.next() - 0.5),
    ].map((term) => term + how())
    const limit = ordered && random.chance(0.5) ? ` LIMIT ${random.below(50)}${random.chance(0.3) ? ` OFFSET ${random.below(20)}` : ''}` : ''
    const text = (where: readonly string[]): string =>
      `SELECT ${all ? '*' : items.join(', ')} FROM ${measurement}${where.length === 0 ? '' : ` WHERE ${where.join(' AND ')}`}${ordered ? ` ORDER BY ${terms.join(', ')}` : ''}${limit}`
    return { sql: text(conditions), inDuckDb: text([...conditions, '1 = 1']), ordered }
  }

  private keys(): { item: string; key: string }[] {
    const { random } = this
    const keys: { item: string; key: string }[] = []
    if (random.chance(0.6)) {
      const bucket = this.bucket()
      const name = random.pick(['t', 'time', '_time'])
      if (random.chance(0.3)) keys.push({ item: bucket, key: bucket })
      else keys.push({ item: `${bucket} AS ${name}`, key: name === '_time' || random.chance(0.3) ? bucket : name })
    }
    for (const tag of ['host', 'region']) if (random.chance(0.4)) keys.push({ item: random.chance(0.8) ? tag : `${tag} AS ${tag}_x`, key: tag })
    if (random.chance(0.3)) keys.reverse()
    return keys
  }

  private bucket(): string {
    const { random } = this
    if (random.chance(0.3)) return `date_trunc('${random.pick(['minute', 'hour', 'second', 'day', 'week'])}', _time)`
    const origin = random.chance(0.2) ? `, '', '${random.pick(['2024-01-01', '2023-11-14T22:13:27Z'])}'` : ''
    return `time_bucket(${random.pick(WIDTHS)}, _time${origin})`
  }

  private aggregate(fields: readonly string[], alone = false): string {
    const { random } = this
    if (random.chance(0.15)) return this.conditional(fields)
    const plain = random.chance(0.1) ? `count(DISTINCT ${random.pick(['host', 'region'])})` : this.ofAll(fields, alone)
    return random.chance(0.2) ? `${plain} FILTER (WHERE ${this.taken(fields)})` : plain
  }

  /** Of CASE, where rows are counted or one value stands for the others. */
  private conditional(fields: readonly string[]): string {
    const { random } = this
    const of = random.pick(['1', '1', '1', random.chance(0.2) ? '2' : '1', this.number(fields), this.number(fields)])
    const other = random.pick(['', '', ' ELSE NULL', ' ELSE 0', ' ELSE 0', random.chance(0.2) ? ' ELSE 0.0' : ''])
    const filter = random.chance(0.1) ? ` FILTER (WHERE ${this.taken(fields)})` : ''
    return `${random.pick(['sum', 'sum', 'count', 'avg', 'max', 'stddev'])}(CASE WHEN ${this.taken(fields)} THEN ${of}${other} END)${filter}`
  }

  /** Which rows an aggregate takes. */
  private taken(fields: readonly string[]): string {
    const { random } = this
    const some = Array.from({ length: 1 + random.below(random.chance(0.2) ? 3 : 1) }, () =>
      random.pick([
        () => `${this.number(fields)} ${random.pick(['>', '>=', '<', '<=', '=', '<>'])} ${random.pick(['90', '12.5', '-3', '50', '0'])}`,
        () => `${this.number(fields)} BETWEEN ${random.below(50)} AND ${random.below(100)}`,
        () => `${this.number(fields)} IS NOT NULL`,
        () => this.either(fields),
        () => `${this.number(fields)} ${random.pick(['>', '<', '<>'])} ${this.number(fields)}`,
        () => random.pick(["host = 'a'", "host IN ('a', 'ä', 'none')", "region <> 'eu'", "host NOT IN ('b', 'c')", "'us' = region", this.like()]),
        () => (random.chance(0.2) ? random.pick(['host IS NULL', "_time > '2023-11-15'", 'u_a > n', "host > 'a'", 'u_a + 1 > 5']) : 'u_a < 40'),
      ])(),
    )
    return some.join(' AND ')
  }

  /** Of numbers, one of which the value is, or comparisons of which one holds. */
  private either(fields: readonly string[]): string {
    const { random } = this
    const numbers = Array.from({ length: 1 + random.below(3) }, () => random.pick(['0', '5', '37', '-1', random.chance(0.1) ? '12.5' : '50']))
    if (random.chance(0.4)) return `${this.number(fields)} ${random.pick(['IN', 'NOT IN'])} (${numbers.join(', ')})`
    const term = (): string => `${this.number(fields)} ${random.pick(['>', '>=', '<', '<=', '=', '<>'])} ${random.below(100)}`
    const terms = Array.from({ length: 2 + random.below(2) }, () => (random.chance(0.2) ? `(${term()} AND ${term()})` : term()))
    return `(${terms.join(' OR ')}${random.chance(0.1) ? ` OR ${this.number(fields)} IN (${numbers.join(', ')})` : ''})`
  }

  private ofAll(fields: readonly string[], alone: boolean): string {
    const { random } = this
    if (random.chance(0.2)) return 'count(*)'
    if (random.chance(0.15)) return random.pick(['min(_time)', 'max(_time)'])
    if (alone && random.chance(0.4)) return `${random.pick(['first', 'last', 'arg_max', 'arg_min', 'max_by', 'min_by'])}(${this.number(fields)}, _time)`
    if (random.chance(0.25)) return this.quantile(this.number(fields))
    if (random.chance(0.2)) return `${random.pick(['stddev', 'stddev_samp', 'stddev_pop', 'variance', 'var_samp', 'var_pop'])}(${this.number(fields)})`
    return `${random.pick(['count', 'sum', 'avg', 'min', 'max', 'mean'])}(${this.number(fields)})`
  }

  /** A field, or what is computed of some. */
  private number(fields: readonly string[]): string {
    return this.random.chance(0.75) ? this.random.pick(fields) : this.computed(fields, 0)
  }

  /** Doubles and 64-bit integers. */
  private computed(fields: readonly string[], depth: number): string {
    const { random } = this
    const [integer, double] = [random.pick(fields.filter((field) => !field.startsWith('u_'))), random.pick(['u_a', fields.includes('u_b') ? 'u_b' : 'u_a'])]
    const whole = random.pick([`(${integer} + 7)`, `(7 - ${integer})`, `-(${integer} )`, `abs(${integer} )`, `(${integer} - ${integer})`, String(integer)])
    const mixed = random.pick([whole, `(${integer} / 7)`, `(${integer} / 2.5)`, `(${integer} * ${double})`])
    const leaf = integer === undefined || random.chance(0.6) ? double : mixed
    if (depth > 3 || (depth > 0 && random.chance(0.5))) return leaf
    const of = (): string => this.computed(fields, depth + 1)
    const literal = random.pick(['100', '-1', '1.5', '2e3', '7', '0', random.chance(0.1) ? '12345678901' : '3'])
    return random.pick([
      () => `round(${of()}, ${random.pick([0, 1, 2, 5, random.chance(0.1) ? -1 : 3])})`,
      () => `${random.pick(['round', 'abs', 'floor', 'ceil', '-'])}(${of()} )`,
      () => `(${of()} ${random.pick(['+', '-', '*', '/'])} ${literal})`,
      () => `(${literal} ${random.pick(['+', '-', '*', random.chance(0.2) ? '/' : '-'])} ${of()})`,
      () => `(${of()} ${random.pick(['+', '-', '*', random.chance(0.2) ? '/' : '+'])} ${of()})`,
    ])()
  }

  private quantile(field: string): string {
    const { random } = this
    const fraction = random.pick([
      '0.5',
      '0.95',
      '0.99',
      '0.9',
      '.25',
      '0',
      '1',
      '0.0',
      '0.333',
      '1e-2',
      '0.123456789012345',
      random.chance(0.1) ? '-0.5' : '1.0',
    ])
    return random.pick([
      `median(${field})`,
      `quantile_cont(${field}, ${fraction})`,
      `percentile_cont(${fraction}) WITHIN GROUP (ORDER BY ${field}${random.pick(['', '', ' ASC', ' DESC'])})`,
    ])
  }

  /** Made of aggregates. */
  private expression(fields: readonly string[], depth: number): string {
    const { random } = this
    const operand = (): string => {
      if (depth < 2 && random.chance(0.4)) return this.expression(fields, depth + 1)
      return random.chance(0.3)
        ? random.pick(['100', '-1', '0', '1.5', '2e3', '0.000001', '7', '12345678901'])
        : random.chance(0.3)
          ? this.aggregate(fields)
          : `${random.pick(['avg', 'max', 'sum'])}(u_a)`
    }
    const dice = random.next()
    if (dice < 0.15) return `round(${operand()}, ${random.pick([0, 1, 2, 2, 5, 15, random.chance(0.1) ? -1 : 3])})`
    if (dice < 0.3) return `${random.pick(['round', 'abs', 'floor', 'ceil', '-'])}(${operand()} )`
    return `(${operand()} ${random.pick(['+', '-', '*', '/'])} ${operand()})`
  }

  private strange(): string {
    return this.random.pick([
      'max(s)',
      'count(DISTINCT u_a)',
      'max(DISTINCT host)',
      'count(DISTINCT s)',
      "max(u_a) FILTER (WHERE s > 'a')",
      'count(s) FILTER (WHERE u_a > 3)',
      'sum(CASE WHEN u_a > 3 THEN 1 WHEN u_a > 1 THEN 0 END)',
      "sum(CASE host WHEN 'a' THEN 1 END)",
      'max(u_a) + 1',
      'max(nothing)',
      'corr(u_a, u_b)',
      'stddev(DISTINCT u_a)',
      'MAX(U_A)',
      'count(_time)',
      'avg("user")',
      'u_a',
      "'text'",
    ])
  }

  private condition(fields: readonly string[], outside: boolean): string {
    const { random } = this
    const at = (): string => this.instant()
    if (outside && random.chance(0.3))
      return random.pick([
        "host LIKE 'a%' ESCAPE 'b'",
        "host ILIKE 'A%'",
        'host IS NULL',
        "host ~ 'a|b'",
        'u_a > u_b',
        'n + 1 > 5',
        "n > '5'",
        'n > 9007199254740993',
        'n < 5::UTINYINT',
        'u_a > NULL',
        "host <> ''",
        "(host = 'a' OR u_a > 3)",
        "date_trunc('minute', _time) > TIMESTAMP '2023-11-15'",
        'u_a IN (1, n)',
        'NOT (u_a < 3 AND n > 4)',
        "u_a > '5'",
        'u_a IS NOT NULL',
        's IS NOT NULL',
        'u_a IS NULL',
        "nothing = 'x'",
      ])
    if (random.chance(0.1)) return this.matching()
    if (random.chance(0.1)) return this.either(fields)
    if (random.chance(0.1)) return `${this.number(fields)} ${random.pick(['>', '>=', '<', '<=', '=', '<>'])} ${this.number(fields)}`
    switch (random.below(8)) {
      case 0:
      case 1:
        return `_time ${random.pick(['>', '>=', '<', '<='])} ${at()}`
      case 2:
        return random.chance(0.5) ? this.withinMillisecond() : `_time BETWEEN ${at()} AND ${at()}`
      case 3:
        return random.pick(["host = 'a'", "host IN ('a', 'ä', 'none')", "region = 'eu'", "(host = 'b' OR host = '😀')", "host = 'none'"])
      case 4:
        return random.pick([...["host <> 'a'", "host NOT IN ('a', 'c')", "region <> 'us'", "host != 'none'"], this.like(), this.like()])
      case 5:
        return `${this.number(fields)} BETWEEN ${random.below(50)} AND ${random.below(100)}`
      default:
        return `${this.number(fields)} ${random.pick(['>', '>=', '<', '<=', '=', '<>'])} ${random.pick(['90', '12.5', '-3', '1e2', '50', '0', '900719925474099', '1e15'])}`
    }
  }

  private matching(): string {
    const { random } = this
    const tag = random.pick(['host', 'region'])
    const pattern = random.pick(['a', '^a', 'b$', '(a|b|ab)', '.', '.*b', '^[ab]+$', 'e.', 'u?s', '[^a]', 'ä', '\\w+', 'a|b', '', '.*', '(?i)A', 'a{1,2}'])
    return random.pick([`${tag} ~ '${pattern}'`, `regexp_matches(${tag}, '${pattern}')`, `regexp_full_match(${tag}, '${pattern}')`])
  }

  private like(): string {
    const { random } = this
    const pattern = Array.from({ length: random.below(4) }, () => random.pick(['%', '%', '_', 'a', 'b', 'ä', '😀', 'e', 'u', '\\', "''"])).join('')
    return `${random.pick(['host', 'region'])} ${random.pick(['LIKE', 'NOT LIKE', '~~'])} '${pattern}'`
  }

  /** A range that begins and ends between milliseconds. */
  private withinMillisecond(): string {
    const { random } = this
    const from = this.start + BigInt(random.below(900) - 20) * STEP + BigInt(random.below(3))
    return `_time >= ${from} AND _time < ${from + BigInt(random.pick([1, 2, 3, 400_000]))}`
  }

  private instant(): string {
    const { random } = this
    const ns = this.start + BigInt(random.below(900) - 20) * STEP + (random.chance(0.2) ? BigInt(random.below(3) - 1) : 0n)
    if (random.chance(0.3)) return `make_timestamp_ns(${ns})`
    if (random.chance(0.3)) return String(ns)
    const seconds = new Date(Number(ns / 1_000_000_000n) * 1000).toISOString().slice(0, 19)
    const fraction = String(ns % 1_000_000_000n).padStart(9, '0')
    return `${random.pick(['TIMESTAMP ', '', 'TIMESTAMP_NS '])}'${seconds}.${fraction}'`
  }

  private groupBy(keys: readonly { item: string; key: string }[], items: readonly string[]): string {
    const { random } = this
    if (keys.length === 0) return random.chance(0.1) ? ' GROUP BY ALL' : ''
    const listed = keys.every(({ item }) => items.includes(item))
    if (listed && random.chance(0.2)) return ' GROUP BY ALL'
    return ` GROUP BY ${keys.map(({ item, key }) => (items.includes(item) && random.chance(0.5) ? String(items.indexOf(item) + 1) : key)).join(', ')}`
  }

  private orderBy(
    keys: readonly { item: string; key: string }[],
    items: readonly string[],
    values: readonly string[],
    outside: boolean,
  ): { text: string; ordered: boolean } {
    const { random } = this
    if (random.chance(0.2)) return { text: '', ordered: keys.length === 0 }
    const how = (): string => random.pick(['', '', ' DESC', ' ASC NULLS FIRST', ' DESC NULLS LAST', ' DESC NULLS FIRST'])
    const terms: string[] = []
    // Sums may come in either order where they differ in their last bits.
    const exact = values.filter((value) => /^(count|max|min)\((\*|\w+)\)$|^sum\((n|u_i)\)$/.test(value))
    if (exact.length > 0 && random.chance(0.3)) terms.push(random.pick(exact) + how())
    for (const { item, key } of keys) terms.push((items.includes(item) && random.chance(0.4) ? String(items.indexOf(item) + 1) : key) + how())
    if (outside && random.chance(0.1)) terms.push('nothing')
    return terms.length === 0 ? { text: '', ordered: true } : { text: ` ORDER BY ${terms.join(', ')}`, ordered: true }
  }
}
