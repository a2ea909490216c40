/**
 * Statements by chance, for the gate's tests: nested and recursive CTEs, correlated subqueries, LATERAL, joins, set operations and whole rows, over
 * names that are shadowed, quoted, spelled in several cases or folded by Unicode, or that DuckDB knows as something else.
 */
import type { Random } from '../../../conformance/random.ts'
import { ident } from '../ast.ts'
import { foldName } from '../names.ts'

interface GeneratorNames {
  /** Measurements that the caller has, with integer columns. */
  measurements: ReadonlyMap<string, readonly string[]>
  /** Names for CTEs, aliases and columns; they may be those of measurements and columns as well. */
  pool: readonly string[]
}

interface Relation {
  alias: string
  columns: readonly string[]
}

type Scope = readonly Relation[][]

/** Every query of a statement has two integer columns, so that set operations fit. */
const WIDTH = 2
const KELVIN = '\u212a'

export class StatementGenerator {
  private readonly random: Random
  private readonly names: GeneratorNames
  private readonly ctes: Relation[][] = []
  private room = 0

  constructor(random: Random, names: GeneratorNames) {
    this.random = random
    this.names = names
  }

  statement(): string {
    this.ctes.length = 0
    this.room = 2 + this.random.below(8)
    return this.query(1 + this.random.below(2), []).text
  }

  private name(): string {
    return this.random.pick(this.random.chance(0.3) ? [...this.names.measurements.keys()] : this.names.pool)
  }

  /** The name, or one that some folding takes for it. */
  private respelled(name: string): string {
    const draw = this.random.below(20)
    if (draw === 0) return name.toUpperCase()
    if (draw === 1) return name.replace(/k/i, KELVIN)
    if (draw === 2) return name.replaceAll(KELVIN, 'k')
    if (draw === 3) return this.name()
    return name
  }

  private written(name: string): string {
    return /^[a-z_]\w*$/i.test(name) && name !== 'select' && this.random.chance(0.4) ? name : ident(name)
  }

  private distinct(count: number): string[] {
    const names = new Map<string, string>()
    while (names.size < count) {
      const name = this.name()
      names.set(foldName(name), name)
    }
    return [...names.values()]
  }

  /** WITH, a body, and the columns it answers. */
  private query(depth: number, outer: Scope): { text: string; columns: string[] } {
    const own: Relation[] = []
    this.ctes.push(own)
    const withs: string[] = []
    let recursive = false
    for (let left = depth > 0 ? this.random.below(3) : 0; left > 0; left--) {
      const name = this.name()
      if (own.some(({ alias }) => foldName(alias) === foldName(name))) continue
      const columns = this.distinct(WIDTH)
      const list = `${this.written(name)}(${columns.map((column) => this.written(column)).join(', ')})`
      if (this.random.chance(0.35)) {
        recursive = true
        const anchor = this.select(depth - 1, outer, this.random.chance(0.15) ? name : this.random.pick([...this.names.measurements.keys()])).text
        const [first, second] = columns.map((column) => this.written(this.respelled(column)))
        const rest = `SELECT ${first} + 1, ${second} FROM ${this.written(this.respelled(name))} WHERE ${first} < 4`
        withs.push(`${list} AS (${anchor} UNION${this.random.chance(0.5) ? ' ALL' : ''} ${rest})`)
      } else withs.push(`${list} AS${this.random.pick(['', ' MATERIALIZED', ' NOT MATERIALIZED'])} (${this.query(depth - 1, outer).text})`)
      own.push({ alias: name, columns })
    }
    const body = this.body(depth, outer)
    this.ctes.pop()
    return { text: `${withs.length === 0 ? '' : `WITH ${recursive ? 'RECURSIVE ' : ''}${withs.join(', ')} `}${body.text}`, columns: body.columns }
  }

  private body(depth: number, outer: Scope): { text: string; columns: string[] } {
    const left = this.select(depth, outer)
    if (depth === 0 || !this.random.chance(0.25)) return left
    const right = this.query(depth - 1, outer)
    const operation = this.random.pick(['UNION', 'UNION ALL', 'UNION ALL BY NAME', 'EXCEPT', 'INTERSECT'])
    return { text: `(${left.text}) ${operation} (${right.text})`, columns: left.columns }
  }

  /** @param from a relation that must be read, by its name. */
  private select(depth: number, outer: Scope, from?: string): { text: string; columns: string[] } {
    const relations: Relation[] = []
    const scope: Scope = [relations, ...outer]
    const source = from === undefined ? this.from(depth, scope, relations) : this.table(from, relations)
    const columns = this.distinct(WIDTH)
    const grouped = this.random.chance(0.15)
    const items = columns.map((column, i) => `${grouped && i > 0 ? `max(${this.value(depth, scope)})` : this.value(depth, scope)} AS ${this.written(column)}`)
    const where = this.random.chance(0.4) ? ` WHERE ${this.condition(depth, scope)}` : ''
    const group = grouped ? ' GROUP BY ALL' : ''
    const order = from === undefined && this.random.chance(0.1) ? ` ORDER BY ${this.written(this.random.pick(columns))}` : ''
    const star = !grouped && this.random.chance(0.05) ? `SELECT ${columns.map((column) => this.written(column)).join(', ')} FROM ` : ''
    const text = `SELECT ${items.join(', ')} FROM ${source}${where}${group}${order}`
    return { text: star === '' ? text : `${star}(${text})`, columns }
  }

  private table(name: string, into: Relation[]): string {
    const alias = this.random.chance(0.5) ? this.name() : undefined
    const cte = this.ctes.flat().findLast((each) => each.alias === name)
    into.push({ alias: alias ?? name, columns: cte?.columns ?? this.names.measurements.get(name) ?? [] })
    return `${this.written(name)}${alias === undefined ? '' : ` AS ${this.written(alias)}`}`
  }

  private from(depth: number, scope: Scope, into: Relation[]): string {
    const first = this.relation(depth, scope, into)
    if (depth === 0 || --this.room < 0 || !this.random.chance(0.35)) return first
    const left = into.flatMap(({ columns }) => columns)
    const second = this.relation(depth - 1, scope, into)
    const shared = left.find((column) => into.at(-1)?.columns.includes(column))
    switch (this.random.below(4)) {
      case 0:
        return shared === undefined ? `${first}, ${second}` : `${first} JOIN ${second} USING (${this.written(shared)})`
      case 1:
        return `${first} ${this.random.pick(['JOIN', 'LEFT JOIN', 'SEMI JOIN'])} ${second} ON ${this.condition(0, scope)}`
      case 2:
        return `${first} NATURAL JOIN ${second}`
      default:
        return `${first}, ${second}`
    }
  }

  private relation(depth: number, scope: Scope, into: Relation[]): string {
    const draw = this.random.below(10)
    if (depth > 0 && --this.room > 0 && draw < 3) {
      const lateral = into.length > 0 && this.random.chance(0.5)
      const query = this.query(depth - 1, lateral ? scope : scope.slice(1))
      const alias = this.name()
      into.push({ alias, columns: query.columns })
      return `${lateral ? 'LATERAL ' : ''}(${query.text}) AS ${this.written(alias)}`
    }
    if (draw === 3) {
      const [alias, column] = [this.name(), this.name()]
      into.push({ alias, columns: [column] })
      const rows = this.random.pick(['(VALUES (1), (2))', 'range(1, 3)', 'unnest([2, 3])', 'generate_series(1, 2)'])
      return `${rows} AS ${this.written(alias)}(${this.written(column)})`
    }
    const visible = this.ctes.flat().map(({ alias }) => alias)
    if (draw === 4 && this.random.chance(0.2)) return this.table(this.name(), into)
    return this.table(visible.length > 0 && this.random.chance(0.6) ? this.random.pick(visible) : this.random.pick([...this.names.measurements.keys()]), into)
  }

  private column(scope: Scope): string {
    const level = this.random.chance(0.8) ? scope[0] : this.random.pick(scope)
    const relation = level.length === 0 ? undefined : this.random.pick(level)
    if (relation === undefined || relation.columns.length === 0) return this.written(this.name())
    const column = this.written(this.respelled(this.random.pick(relation.columns)))
    return this.random.chance(0.6) ? `${this.written(this.respelled(relation.alias))}.${column}` : column
  }

  private value(depth: number, scope: Scope): string {
    const nested = depth > 0 && --this.room > 0
    switch (this.random.below(nested ? 13 : 6)) {
      case 0:
        return String(this.random.below(9))
      case 1:
        return `(${this.column(scope)} + ${this.column(scope)})`
      case 2: {
        const name = this.written(this.name())
        return `list_sum(list_transform([1, 2], lambda ${name}: ${name} + ${this.column(scope)}))::BIGINT`
      }
      case 6: {
        const query = this.query(depth - 1, scope)
        const alias = this.name()
        return `(SELECT max(${this.written(alias)}.${this.written(query.columns[0])}) FROM (${query.text}) AS ${this.written(alias)})`
      }
      case 12:
        return `${this.random.pick(['plus_one', 'half', 'quarter'])}(${this.value(depth - 1, scope)})::BIGINT`
      case 7:
        return `CASE WHEN ${this.condition(depth - 1, scope)} THEN ${this.column(scope)} ELSE 0 END`
      case 8: {
        const key = this.written(this.name())
        return `{${key}: ${this.column(scope)}}.${key}`
      }
      default:
        return this.column(scope)
    }
  }

  private condition(depth: number, scope: Scope): string {
    const nested = depth > 0 && --this.room > 0
    switch (this.random.below(nested ? 5 : 2)) {
      case 0:
        return `${this.column(scope)} < ${this.random.below(9)}`
      case 2:
        return `EXISTS (${this.query(depth - 1, scope).text})`
      case 3: {
        const query = this.query(depth - 1, scope)
        return `${this.column(scope)} IN (SELECT ${this.written(query.columns[0])} FROM (${query.text}))`
      }
      case 4:
        return `NOT (${this.condition(depth - 1, scope)})`
      default:
        return `${this.column(scope)} = ${this.column(scope)}`
    }
  }
}
