/**
 * Statements whose answer lies at an end of the time: rows or buckets in its order up to a LIMIT, and the newest or the oldest values of a measurement, read off the checked tree. They are
 * run over one slice of the time after the other, beginning at that end, until the answer is there (read/time-slices.ts). A list of what is known to come out the same so: no
 * row of a slice may matter to those of another.
 */
import { type Node, walk } from './ast.ts'
import { AGGREGATES, OPERATORS, SCALARS } from './functions.ts'
import type { TagHint } from './host.ts'
import { bucketKey } from './lane/bucket-key.ts'
import { CALL, only } from './lane/members.ts'
import { count, type LaneCatalog, measurementOf, Recogniser } from './lane/recognise.ts'
import { foldName } from './names.ts'
import { constant } from './parameters.ts'
import { conjuncts, prune } from './prune.ts'
import { newScope } from './scope.ts'

interface Scanned {
  measurement: string
  /** Nanoseconds, inclusive. */
  time: [low: bigint, high: bigint]
  tags: readonly TagHint[]
  /** Of the answer. */
  columns: number
}

export interface OrderedRows extends Scanned {
  kind: 'rows'
  newestFirst: boolean
  limit: number
  offset: number
  /** Rows are groups of whole buckets of so many milliseconds: none may lie in two slices. */
  bucket?: Bucket
}

export interface Bucket {
  step: number
  anchor: number
}

export interface ValuesAtEnds extends Scanned {
  kind: 'values'
  /** Of each column whether it is of the newest row that has such a value, or of the oldest. */
  newest: readonly boolean[]
}

export type TimeOrder = OrderedRows | ValuesAtEnds

const SELECT = new Set(
  'type modifiers cte_map select_list from_table where_clause group_expressions group_sets having aggregate_handling query_location'.split(' '),
)
const EXPRESSIONS = new Set('COLUMN_REF CONSTANT CAST COMPARISON BETWEEN CONJUNCTION CASE OPERATOR FUNCTION STAR'.split(' '))
/** The printer's own. */
const BUCKETS = new Set(['time_bucket', 'date_bin'])
const NEWEST = new Set(['arg_max', 'max_by', 'last'])
const OLDEST = new Set(['arg_min', 'min_by', 'first'])

/** @param tree with values in the places of its parameters. */
export function recogniseTimeOrder(tree: Node, catalog: LaneCatalog): TimeOrder | undefined {
  if (tree.type !== 'SELECT_NODE' || !only(tree, SELECT) || tree.cte_map?.map !== undefined || tree.aggregate_handling !== 'STANDARD_HANDLING') return undefined
  if (!((tree.modifiers ?? []) as Node[]).some(({ type }) => type === 'LIMIT_MODIFIER') && !mayBeValues(tree)) return undefined
  const measurement = measurementOf(tree.from_table, catalog)
  return measurement === undefined ? undefined : new TimeOrderRecogniser(tree, measurement).timeOrder(catalog.now())
}

/** The statement with its first rows, so many at most, in place of those that its LIMIT and OFFSET choose. */
export function withFirstRows(tree: Node, rows: number): Node {
  const bounds = { type: 'LIMIT_MODIFIER', limit: constant('BIGINT', BigInt(rows)) }
  return { ...tree, modifiers: ((tree.modifiers ?? []) as Node[]).map((modifier) => (modifier.type === bounds.type ? bounds : modifier)) }
}

function mayBeValues({ select_list: items }: Node): boolean {
  return ((items ?? []) as Node[]).every((item) => item.class === 'FUNCTION')
}

class TimeOrderRecogniser extends Recogniser {
  timeOrder(now: bigint): TimeOrder | undefined {
    const answer = this.orderedRows(now) ?? this.valuesAtEnds()
    if (answer === undefined || !this.isPlain()) return undefined
    const { source, tree } = this
    const scope = newScope(undefined)
    scope.sources.push(source)
    scope.aliases = new Set(this.items.flatMap(({ alias }) => (alias === undefined ? [] : [foldName(String(alias))])))
    prune({ kind: 'source', source }, conjuncts(tree.where_clause), scope, now)
    const columns = this.items.reduce((sum, item) => sum + (item.class === 'STAR' ? this.measurement.columns.length : 1), 0)
    return { measurement: this.measurement.name, time: source.time, tags: source.tags, columns, ...answer }
  }

  private orderedRows(now: bigint): Omit<OrderedRows, keyof Scanned> | undefined {
    const [order, bounds, ...more] = (this.tree.modifiers ?? []) as Node[]
    if (order?.type !== 'ORDER_MODIFIER' || bounds?.type !== 'LIMIT_MODIFIER' || more.length > 0) return undefined
    const limit = count(bounds.limit, Number.POSITIVE_INFINITY)
    const offset = count(bounds.offset, 0)
    if (limit === undefined || limit === 0 || !Number.isFinite(limit) || offset === undefined) return undefined
    const [{ type, expression }] = order.orders as Node[]
    // A star is several columns, so that a number need not be that of an item.
    const meant = expression.class === 'CONSTANT' && this.items.some((item) => item.class === 'STAR') ? undefined : this.meant(expression, false)
    const rows = { kind: 'rows', newestFirst: type === 'DESCENDING', limit, offset } as const
    if (meant === undefined) return undefined
    if (!this.isGrouped) return this.column(meant)?.role === 'time' && this.tree.having === undefined ? rows : undefined
    const bucket = this.shadows(meant) ? undefined : this.bucketOf(meant, now)
    return bucket !== undefined && this.groupsBy(bucket, now) ? { ...rows, bucket } : undefined
  }

  private get isGrouped(): boolean {
    return this.tree.group_sets !== undefined
  }

  private bucketOf(node: Node | undefined, now: bigint): Bucket | undefined {
    const key = node === undefined ? undefined : bucketKey(node, (each) => this.column(each)?.role === 'time', now)
    return key?.kind === 'bucket' ? { step: key.step, anchor: key.anchor } : undefined
  }

  private groupsBy({ step, anchor }: Bucket, now: bigint): boolean {
    const expressions = (this.tree.group_expressions ?? []) as Node[]
    const [set, ...more] = this.tree.group_sets as number[][]
    if (more.length > 0 || set.length !== expressions.length) return false
    return expressions.some((expression) => {
      const found = this.bucketOf(this.meant(expression, true), now)
      return found?.step === step && found.anchor === anchor
    })
  }

  private valuesAtEnds(): Pick<ValuesAtEnds, 'kind' | 'newest'> | undefined {
    if (this.tree.modifiers !== undefined || this.isGrouped || this.tree.having !== undefined) return undefined
    const newest = this.items.map((item) => this.isNewest(item))
    return newest.length === 0 || newest.includes(undefined) ? undefined : { kind: 'values', newest: newest as boolean[] }
  }

  private isNewest(node: Node): boolean | undefined {
    if (node.class !== 'FUNCTION' || !only(node, CALL) || node.order_bys?.orders !== undefined) return undefined
    const name = String(node.function_name)
    const [of, at, ...more] = ((node.children ?? []) as Node[]).map((child) => this.column(child))
    if (name === 'max' || name === 'min') return node.children.length === 1 && of?.role === 'time' ? name === 'max' : undefined
    if (of === undefined || at?.role !== 'time' || more.length > 0) return undefined
    return NEWEST.has(name) ? true : OLDEST.has(name) ? false : undefined
  }

  /** Whether each row, or each group, is a matter of its own: no query, no window and no function of several rows but of a group's. */
  private isPlain(): boolean {
    const { select_list: items, where_clause: where, modifiers, group_expressions: groups, having } = this.tree
    const aggregated = new Set<Node>(((modifiers ?? []) as Node[]).length === 0 ? this.items : [])
    let plain = true
    walk([items, where, modifiers, groups, having], (node) => {
      if (node.class === undefined || aggregated.has(node)) return
      if (!EXPRESSIONS.has(String(node.class))) plain = false
      if (node.class === 'FUNCTION' && !this.isKnown(foldName(String(node.function_name)))) plain = false
    })
    return plain
  }

  private isKnown(name: string): boolean {
    return SCALARS.has(name) || OPERATORS.has(name) || BUCKETS.has(name) || (this.isGrouped && AGGREGATES.has(name))
  }
}
