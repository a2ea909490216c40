/** The routes of a running node that begin runs and have them go on, for verbs. */
import type { CommandCall } from 'svcdb'
import { URL_DEFAULT } from './command.ts'

/** With SVC_TOKEN as the token. @param path below those of runs. @throws Error when the node cannot be reached, or refuses. */
export async function askAdmin<T>({ flags, env }: CommandCall, path: string, body?: object): Promise<T> {
  const url = `${(flags.url ?? URL_DEFAULT).replace(/\/+$/, '')}/api/v1/admin/agents/runs`
  const query = flags.tenant === undefined ? '' : `?tenant=${encodeURIComponent(flags.tenant)}`
  const headers = { 'content-type': 'application/json', ...(env.SVC_TOKEN === undefined ? {} : { authorization: `Bearer ${env.SVC_TOKEN}` }) }
  const asked = body === undefined ? { headers } : { method: 'POST', headers, body: JSON.stringify(body) }
  const answer = await fetch(`${url}${path}${query}`, asked).catch((error: Error) => {
    throw new Error(`cannot reach the node at "${url}": ${(error.cause as Error | undefined)?.message ?? error.message}; see --url`)
  })
  const given = (await answer.json()) as T & { error?: string }
  if (!answer.ok) throw new Error(given.error ?? `the node answered ${answer.status}`)
  return given
}
