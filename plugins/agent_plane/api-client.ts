/** The operator API of a running node, for verbs. */
import type { CommandCall } from 'svcdb'
import { URL_DEFAULT } from './command.ts'

/** Where the plugin `operator_api` has its routes. */
const API_DEFAULT = '/api/v1/plane'

export interface ApiAnswer<T> {
  status: number
  body: T & { error?: string }
}

/**
 * With SVC_TOKEN as the token; with --actor it is asked of the store of a node that is stopped.
 * @throws Error when the node cannot be reached, or answers something else than JSON, and when it has no operator API there.
 */
export async function askApi<T>(call: CommandCall, path: string, body?: object): Promise<ApiAnswer<T>> {
  const { flags, env } = call
  if (flags.actor !== undefined) return (await import('./store-acts.ts')).askStore<T>(call, path, body)
  const url = `${(flags.url ?? URL_DEFAULT).replace(/\/+$/, '')}${flags.api ?? API_DEFAULT}${path}`
  const headers = { 'content-type': 'application/json', ...(env.SVC_TOKEN === undefined ? {} : { authorization: `Bearer ${env.SVC_TOKEN}` }) }
  const asked = body === undefined ? { headers } : { method: 'POST', headers, body: JSON.stringify(body) }
  const answer = await fetch(url, asked).catch((error: Error) => {
    throw new Error(
      `cannot reach the node at "${url}": ${(error.cause as Error | undefined)?.message ?? error.message}; see --url; of a node that is stopped, name the config with --config and who acts with --actor`,
    )
  })
  const text = await answer.text()
  let read: T & { error?: string; code?: string }
  try {
    read = JSON.parse(answer.status === 204 ? '{}' : text)
  } catch {
    throw new Error(`the node at "${url}" answered ${answer.status}, and no JSON; see --url and --api`)
  }
  // The operator API has no codes: there is none at this path, which is no answer to what was asked.
  if (answer.status === 404 && read.code !== undefined) throw new Error(read.error)
  return { status: answer.status, body: read }
}
