/** `svc plane tasks` and `decide`: on a running node, over the operator API. What a task says is printed as it is rendered, and never as it was written. */
import type { CommandCall } from 'svcdb'
import type { TaskView } from 'svcdb/agents'
import { type ApiAnswer, askApi } from './api-client.ts'
import { hasReason, said } from './case-verbs.ts'
import { visible } from './tasks/rendering.ts'

const USAGE = 2

/** The tasks that wait for the caller, or one of them: shown, or taken, given back or taken over by a flag. */
export async function tasks(call: CommandCall, id: string | undefined): Promise<number> {
  const { claim, release, takeover } = call.flags
  const acts = [claim, release, takeover].filter((flag) => flag !== undefined)
  if (acts.length > 1 || (acts.length > 0 && id === undefined)) {
    call.err('svc: cannot act on a task: name one, with one of --claim, --release and --takeover\n')
    return USAGE
  }
  if (id === undefined) {
    const { status, body } = await askApi<{ tasks: TaskView[]; truncated: boolean }>(call, '/tasks')
    return say(call, status, status < 300 ? { tasks: body.tasks.map(row), truncated: body.truncated } : body)
  }
  const at = `/tasks/${encodeURIComponent(id)}`
  if (release !== undefined) {
    const { status, body } = await askApi<object>(call, `${at}/release`, {})
    return say(call, status, status === 204 ? { released: true } : body)
  }
  if (claim !== undefined) return shown(call, await askApi<TaskView>(call, `${at}/claim`, {}))
  if (takeover !== undefined) return shown(call, await askApi<TaskView>(call, `${at}/takeover`, { from: takeover }))
  return shown(call, await askApi<TaskView>(call, at))
}

export async function decide(call: CommandCall, id: string): Promise<number> {
  const { approve, reject, reason, digest, amendment } = call.flags
  const refuse = (text: string) => {
    call.err(`svc: ${text}\n`)
    return USAGE
  }
  if ((approve === undefined) === (reject === undefined)) return refuse('cannot decide: write --approve or --reject')
  if (!hasReason(call, 'decide')) return USAGE
  let amended = {}
  try {
    if (amendment !== undefined) amended = { amendment: JSON.parse(amendment) as unknown }
  } catch (error) {
    return refuse(`cannot use --amendment: it is not JSON: ${(error as Error).message}`)
  }
  const decision = { approved: approve !== undefined, reason, ...(digest === undefined ? {} : { digest }), ...amended }
  return said(call, await askApi(call, `/tasks/${encodeURIComponent(id)}/decide`, decision))
}

function shown(call: CommandCall, { status, body }: ApiAnswer<TaskView>): number {
  return say(call, status, status < 300 ? whole(body) : body)
}

function say(call: CommandCall, status: number, body: object): number {
  return said(call, { status, body })
}

/** Without the justification, whose texts are as they were written. */
function whole({ justification: _, rendering, ...rest }: TaskView): object {
  return { ...named(rest), rendering }
}

/** For a list. The digest is printed with the whole proposal only. */
function row({ justification: _, digest: __, rendering: { summary, escaped, mixed_script }, ...rest }: TaskView): object {
  return { ...named(rest), summary, escaped, ...(mixed_script === undefined ? {} : { mixed_script }) }
}

function named(members: object): object {
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [name, typeof value === 'string' ? visible(value) : value]))
}
