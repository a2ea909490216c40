/** Modules of plugins' functions on a thread of their own: they take what time they take, and the node goes on. */
import { parentPort } from 'node:worker_threads'
import type { SqlConstant, SqlFunctionBody, SqlFunctionColumn } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

export interface ModuleCall {
  id: number
  name: string
  plugin: string
  /** Its address. */
  module: string
  columns: SqlFunctionColumn[]
  rows: number
  constants: readonly SqlConstant[]
}

export type ModuleAnswer = { id: number } & ({ result: SqlFunctionColumn | undefined } | { code: string; message: string })

const port = parentPort as NonNullable<typeof parentPort>

async function bodyOf({ name, plugin, module }: ModuleCall): Promise<SqlFunctionBody> {
  const exported = (await import(module)) as Record<string, unknown>
  const body = Object.hasOwn(exported, name) ? exported[name] : exported.default
  if (typeof body !== 'function') throw new SvcError('DATABASE_ERROR', `cannot load SQL function "${name}" of plugin "${plugin}": its module exports none`)
  return body as SqlFunctionBody
}

port.on('message', async (call: ModuleCall) => {
  const answer = (message: ModuleAnswer): void => port.postMessage(message)
  try {
    answer({ id: call.id, result: (await bodyOf(call))(call.columns, call.rows, call.constants) })
  } catch (error) {
    const { code, message } = error as SvcError
    answer({ id: call.id, code: error instanceof SvcError ? code : 'DATABASE_ERROR', message })
  }
})
