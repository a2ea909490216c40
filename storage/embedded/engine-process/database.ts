/** The DuckDB of an engine process: views of the rows handed over, and one statement over them. */
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import type { SqlChunk } from 'svcdb'
import { type RowSource, registerSources, SOURCE_FUNCTION } from '../duckdb/duckdb.ts'
import { ident, literal } from '../sql/ast.ts'
import { guardPlan, type PlanBounds } from '../sql/plan-guard.ts'
import { registration } from '../sql/setup.ts'
import { runnerOn, type Statement } from '../sql/statement.ts'
import { type FromProcess, type ProcessSettings, type ToProcess, type View, WINDOW_BYTES } from './messages.ts'
import { chunkSource } from './row-source.ts'
import { slicesOf } from './slices.ts'

type Open = Extract<ToProcess, { kind: 'open' }>

export interface ProcessDatabase {
  open(request: Open): Promise<void>
  file(view: string, path: string): Promise<void>
  rows(view: View, chunk: SqlChunk | undefined): Promise<void>
  run(): Promise<void>
  plans(sql: string, analyze: boolean): Promise<void>
  taken(bytes: number): void
  close(): Promise<void>
}

/** Before rows are handed over the views read nothing, and the statement must not either. */
const NOTHING: Omit<PlanBounds, 'refused'> = { source: SOURCE_FUNCTION, isFile: () => false, isSource: () => false }

export async function openDatabase(settings: ProcessSettings, send: (message: FromProcess) => void): Promise<ProcessDatabase> {
  const { scratch, threads, bufferBytes, scratchBytes, noSpill } = settings
  const megabytes = (bytes: number): string => `${Math.max(1, Math.floor(bytes / 1e6))}MB`
  const instance = await DuckDBInstance.create(':memory:', {
    threads: String(threads),
    memory_limit: megabytes(bufferBytes),
    temp_directory: noSpill ? '' : join(scratch, 'spill'),
    max_temp_directory_size: megabytes(scratchBytes),
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
    allow_community_extensions: 'false',
    allow_unsigned_extensions: 'false',
  })
  const connection = await instance.connect()
  ;(await registration(settings.functions))(connection)
  const sources = new Map<string, RowSource>()
  registerSources(connection, sources)
  for (const statement of [
    `SET TimeZone = 'UTC'`,
    `SET preserve_insertion_order = true`,
    `SET streaming_buffer_size = '128KB'`,
    `SET explain_output = 'all'`,
    `SET allowed_directories = [${literal(scratch)}]`,
    `SET enable_external_access = false`,
    `SET lock_configuration = true`,
  ])
    await connection.run(statement)

  let request: Open | undefined
  let statement: Statement | undefined
  let inFlight = 0
  let wake: (() => void) | undefined
  const chunks = new Map<string, SqlChunk[]>()

  const view = (name: string, select: string): Promise<unknown> => connection.run(`CREATE OR REPLACE TEMP VIEW ${ident(name)} AS ${select}`)
  const prepare = ({ sql, textBytes, unites, limit, histograms }: Open): Promise<Statement> =>
    runnerOn(connection).open(sql, { textBytes, unites, limit, histograms: () => histograms })
  const room = async (): Promise<void> => {
    while (inFlight >= WINDOW_BYTES)
      await new Promise<void>((resolve) => {
        wake = resolve
      })
  }

  return {
    async open(message) {
      request = message
      for (const { name, columns } of message.views)
        await view(name, `SELECT ${columns.map((column) => `NULL::${column.type} AS ${ident(column.name)}`).join(', ')} WHERE false`)
      statement = await prepare(message)
      await guardPlan(message.sql, { ...NOTHING, refused: (reason) => send({ kind: 'refused-plan', id: message.id, reason }) }, connection)
      const { columns, columnsKnown, parameterTypes } = statement
      send({ kind: 'opened', id: message.id, columns, columnsKnown, parameterTypes })
    },
    async file(name, path) {
      await view(name, `SELECT * FROM read_parquet([${literal(path)}])`)
    },
    async rows(into, chunk) {
      const known = chunks.get(into.name) ?? []
      chunks.set(into.name, known)
      if (chunk !== undefined) return void known.push(chunk)
      sources.set(into.name, chunkSource(into, known))
      await view(into.name, `SELECT * FROM ${SOURCE_FUNCTION}(${literal(into.name)})`)
    },
    async run() {
      const { id, views } = request as Open
      // It was prepared when its views had no rows.
      if (views.length > 0) {
        statement?.destroy()
        statement = await prepare(request as Open)
      }
      let first = true
      for await (const chunk of (statement as Statement).rows()) {
        const dictionaries = first ? chunk.columns.map(({ dictionary }) => dictionary) : undefined
        for (const { chunk: slice, bytes } of slicesOf(chunk)) {
          await room()
          inFlight += bytes
          const columns = slice.columns.map(({ dictionary: _, ...vector }) => vector)
          send({ kind: 'chunk', id, chunk: { rows: slice.rows, columns }, bytes, ...(first ? { dictionaries } : {}) })
          first = false
        }
      }
      statement = undefined
      send({ kind: 'end', id })
    },
    async plans(sql, analyze) {
      send({ kind: 'plans', id: (request as Open).id, plans: await runnerOn(connection).plans(sql, analyze) })
    },
    taken(bytes) {
      inFlight -= bytes
      wake?.()
    },
    async close() {
      statement?.destroy()
      statement = undefined
      chunks.clear()
      sources.clear()
      inFlight = 0
      for (const { name } of request?.views ?? []) await connection.run(`DROP VIEW IF EXISTS ${ident(name)}`)
      request = undefined
    },
  }
}
