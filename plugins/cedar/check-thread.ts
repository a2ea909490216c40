/**
 * Checks policies in a thread of its own. It takes long for many policies, and some, such as a thousand parentheses, leave the engine
 * that read them unusable: never the one that decides.
 */
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { loadCedar } from './cedar-library.ts'
import { PolicyEngine } from './engine.ts'
import { CAPABILITIES, DATA_ACTIONS } from './model.ts'
import { type Checked, checkPolicies } from './policy-check.ts'
import type { PolicyFile } from './policy-files.ts'

const NAME = 'svc-policy-check'
const TIME_LIMIT_MS = 60_000
/** Half of what the main thread has: what is fine here is fine there. */
const STACK_MB = 0.5

/** @param schema of policies that are not about the server's routes. @param signal ends it early. @throws Error when it cannot be told. */
export function checkInThread(files: readonly PolicyFile[], { signal, schema }: { signal?: AbortSignal; schema?: string } = {}): Promise<Checked> {
  const worker = new Worker(new URL(import.meta.url), { name: NAME, workerData: { name: NAME, files, schema }, resourceLimits: { stackSizeMb: STACK_MB } })
  let stopped = (): void => {}
  return new Promise<Checked>((resolve, reject) => {
    const fail = (cause: string) => reject(new Error(`cannot check the policies: ${cause}`))
    stopped = () => fail('the server stops')
    const timer = setTimeout(() => fail(`it takes more than ${TIME_LIMIT_MS / 1000} s; use fewer or simpler ones`), TIME_LIMIT_MS).unref()
    if (signal?.aborted) stopped()
    signal?.addEventListener('abort', stopped)
    worker.on('message', resolve)
    worker.on('error', (error) => fail(error instanceof Error ? error.message : String(error)))
    worker.on('exit', () => {
      clearTimeout(timer)
      fail('its thread ended')
    })
  }).finally(() => {
    signal?.removeEventListener('abort', stopped)
    return worker.terminate()
  })
}

async function check(files: readonly PolicyFile[], schema: string | undefined): Promise<Checked> {
  const cedar = await loadCedar()
  const checked = checkPolicies(cedar, files, schema)
  if (checked.problems.length > 0 || schema !== undefined) return checked
  try {
    const engine = new PolicyEngine(cedar, 0)
    engine.activate(checked.set)
    for (const action of [...Object.values(DATA_ACTIONS), ...CAPABILITIES]) {
      const namespace = Object.values<string>(DATA_ACTIONS).includes(action) ? 'default' : undefined
      const context = { principal: 'nobody', roles: ['none'], method: 'none', claims: { tenant_id: 'default' }, address: '127.0.0.1', requestId: 'check' }
      engine.decide({ context, action, namespace, route: '/', now: Date.now() })
    }
  } catch (error) {
    checked.problems.push(`the policies cannot be evaluated: ${(error as Error).message}`)
  }
  return checked
}

if (!isMainThread && (workerData as { name?: string } | null)?.name === NAME) {
  const { files, schema } = workerData as { files: PolicyFile[]; schema?: string }
  parentPort?.postMessage(await check(files, schema))
}
