/** Loads what a plugin's module has for a function. */
import type { SqlFunctionBody } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { FunctionSpec } from '../../threads/function-spec.ts'

/** @throws DATABASE_ERROR naming plugin and function. */
export async function exportOf({ name, plugin, module }: Pick<FunctionSpec, 'name' | 'plugin' | 'module'>): Promise<SqlFunctionBody> {
  const wrong = (cause: string, error?: unknown) =>
    new SvcError('DATABASE_ERROR', `cannot load SQL function "${name}" of plugin "${plugin}": ${cause}`, { cause: error })
  let exported: Record<string, unknown>
  try {
    exported = (await import(module as string)) as Record<string, unknown>
  } catch (error) {
    throw wrong((error as Error).message, error)
  }
  const body = Object.hasOwn(exported, name) ? exported[name] : exported.default
  if (typeof body !== 'function') throw wrong(`its module exports neither "${name}" nor a default that is a function`)
  return body as SqlFunctionBody
}

/** Of all of them. One that cannot be loaded fails the statements that call it, and no others. */
export async function loadBodies(specs: readonly Pick<FunctionSpec, 'name' | 'plugin' | 'module'>[]): Promise<SqlFunctionBody[]> {
  return Promise.all(
    specs.map((spec) =>
      exportOf(spec).catch((error: unknown) => (): never => {
        throw error
      }),
    ),
  )
}
