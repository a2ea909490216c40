/** What a server with connectors answers over HTTP. */

export interface Listed {
  name: string
  status: unknown
  metrics: Record<string, number>
}

export const connectors = async (url: string): Promise<Listed[]> => ((await (await fetch(`${url}/api/v1/connectors`)).json()) as { items: Listed[] }).items

export const isUp = async (url: string): Promise<boolean> => (await connectors(url)).every(({ status }) => status === 'Idle' || status === 'Running')

/** Rows of a query in SQL; none when it is refused, as while there is no such measurement. */
export async function sql(url: string, query: string): Promise<unknown[][]> {
  const answer = await fetch(`${url}/api/v1/svc/sql`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query }) })
  return answer.ok ? ((await answer.json()) as { rows: unknown[][] }).rows : []
}
