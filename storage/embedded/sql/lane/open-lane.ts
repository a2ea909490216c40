/** Opens a statement that the lane answers, with the gate's checks before it. */
import type { SqlChunk, SqlColumn, SqlRequest } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { DEFAULT_LIMITS, type SqlLimits } from '../../sql-limits.ts'
import type { Node, Parse } from '../ast.ts'
import { checkText, checkTree } from '../limits.ts'
import { bindParameters, parameterNames, valuesOf } from '../parameters.ts'
import { classifyStatement } from '../tokens.ts'
import { evaluate } from './evaluate.ts'
import type { LaneHost } from './host.ts'
import { type NewestPlan, recogniseNewest } from './newest.ts'
import { newestChunks } from './newest-answer.ts'
import type { LanePlan } from './plan.ts'
import { type LaneCatalog, recognise } from './recognise.ts'
import { chunksOf, columnsOf } from './result.ts'
import { rowColumns, selectRows } from './select-rows.ts'

export interface LaneOptions {
  limits: Readonly<SqlLimits> | undefined
  parse: Parse
}

/** A statement of the lane. Its rows come undefined, before any is read, where samples turn out not to tell all: it is DuckDB's then. */
export interface OpenedLane {
  columns: SqlColumn[]
  rows(signal: AbortSignal | undefined): Promise<Iterable<SqlChunk> | AsyncIterable<SqlChunk> | undefined>
}

/**
 * The tree of a query, with values in the places of its parameters. Undefined for a statement that is to be refused, or is none: whoever runs it in DuckDB says why.
 * @param explains true: of the query that an EXPLAIN explains.
 */
export async function checkedTree(
  { query, parameters }: SqlRequest,
  { limits = DEFAULT_LIMITS, parse }: LaneOptions,
  explains = false,
): Promise<Node | undefined> {
  try {
    checkText(query, limits)
    const statement = classifyStatement(query)
    if (statement.kind !== 'query' || (statement.explain !== 'no') !== explains || query.includes('\0')) return undefined
    const { tree, parameters: map } = await parse(statement.text)
    const names = parameterNames(map)
    if (names.length > 0 && parameters === undefined) return undefined
    bindParameters(tree, names, valuesOf(names, parameters))
    checkTree(tree, limits)
    return tree
  } catch (error) {
    if (error instanceof SvcError && error.code === 'SQL_ERROR') return undefined
    throw error
  }
}

export function isLanes(host: LaneCatalog, tree: Node): boolean {
  return (recogniseNewest(tree, host) ?? recognise(tree, host)) !== undefined
}

/** Undefined for a statement of DuckDB's. */
export function openLane(host: LaneHost, tree: Node, textBytes: boolean): OpenedLane | undefined {
  const plan: LanePlan | NewestPlan | undefined = recogniseNewest(tree, host) ?? recognise(tree, host)
  if (plan === undefined) return undefined
  if ('by' in plan) {
    return {
      columns: plan.outputs.map(({ name, type }) => ({ name, type })),
      async rows(signal) {
        const table = await host.newest(plan)
        return table === undefined ? undefined : newestChunks(plan, table, textBytes, signal)
      },
    }
  }
  return {
    columns: plan.kind === 'rows' ? rowColumns(plan) : columnsOf(plan),
    async rows(signal) {
      if (plan.kind === 'rows') return selectRows(plan, host.rows(plan), textBytes, signal)
      const evaluated = await evaluate(plan, host.rows(plan), host.room, signal)
      return evaluated === undefined ? undefined : chunksOf(plan, evaluated, textBytes)
    },
  }
}
