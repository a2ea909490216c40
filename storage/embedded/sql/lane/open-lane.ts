/** Opens a statement that the lane answers, with the gate's checks before it. */
import type { SqlChunk, SqlColumn, SqlRequest } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { DEFAULT_LIMITS, type SqlLimits } from '../../sql-limits.ts'
import type { Parse } from '../ast.ts'
import { checkText, checkTree } from '../limits.ts'
import { bindParameters, parameterNames, valuesOf } from '../parameters.ts'
import { classifyStatement } from '../tokens.ts'
import { evaluate } from './evaluate.ts'
import type { LaneHost } from './host.ts'
import { type NewestPlan, recogniseNewest } from './newest.ts'
import { newestChunks } from './newest-answer.ts'
import type { LanePlan } from './plan.ts'
import { recognise } from './recognise.ts'
import { chunksOf, columnsOf } from './result.ts'
import { rowColumns, selectRows } from './select-rows.ts'

export interface LaneOptions {
  limits: Readonly<SqlLimits> | undefined
  parse: Parse
}

/** A statement of the lane. Its rows come undefined, before any is read, where samples turn out not to tell all: it is DuckDB's then. */
export interface OpenedLane {
  columns: SqlColumn[]
  rows(): Promise<Iterable<SqlChunk> | undefined>
}

/** Whether the statement that an EXPLAIN explains is one of the lane's; undefined for what is no EXPLAIN. */
export async function explainsLane(host: LaneHost, { query, parameters }: SqlRequest, options: LaneOptions): Promise<boolean | undefined> {
  const statement = classifyStatement(query)
  if (statement.kind !== 'query' || statement.explain === 'no') return undefined
  return (await planOf(host, statement.text, parameters, options)) !== undefined
}

/** Undefined for a statement of DuckDB's, and for one that is to be refused: whoever runs it there says why. */
export async function openLane(host: LaneHost, { query, parameters, textBytes }: SqlRequest, options: LaneOptions): Promise<OpenedLane | undefined> {
  const plan = await planOf(host, query, parameters, options)
  if (plan === undefined) return undefined
  if ('by' in plan) {
    return {
      columns: plan.outputs.map(({ name, type }) => ({ name, type })),
      async rows() {
        const table = await host.newest(plan)
        return table === undefined ? undefined : newestChunks(plan, table, textBytes === true)
      },
    }
  }
  return {
    columns: plan.kind === 'rows' ? rowColumns(plan) : columnsOf(plan),
    async rows() {
      if (plan.kind === 'rows') return selectRows(plan, host.rows(plan), textBytes === true)
      const evaluated = await evaluate(plan, host.rows(plan))
      return evaluated === undefined ? undefined : chunksOf(plan, evaluated, textBytes === true)
    },
  }
}

async function planOf(
  host: LaneHost,
  query: string,
  parameters: SqlRequest['parameters'],
  { limits = DEFAULT_LIMITS, parse }: LaneOptions,
): Promise<LanePlan | NewestPlan | undefined> {
  try {
    checkText(query, limits)
    const statement = classifyStatement(query)
    if (statement.kind !== 'query' || statement.explain !== 'no' || query.includes('\0')) return undefined
    const { tree, parameters: map } = await parse(statement.text)
    const names = parameterNames(map)
    if (names.length > 0 && parameters === undefined) return undefined
    bindParameters(tree, names, valuesOf(names, parameters))
    checkTree(tree, limits)
    return recogniseNewest(tree, host) ?? recognise(tree, host)
  } catch (error) {
    if (error instanceof SvcError && error.code === 'SQL_ERROR') return undefined
    throw error
  }
}
