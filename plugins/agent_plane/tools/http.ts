/** Calls of other hosts: to checked addresses, once, without following where they lead, and bounded in time and size. */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { EffectError, type HttpAnswer, type HttpCall } from 'svcdb/agents'
import { type AddressGuard, addressProblem, Forbidden, isInternalName, literalAddress, sendGuarded } from 'svcdb/lib/egress'
import { BoundedBytes } from 'svcdb/lib/network'

const { request: httpRequest } = process.getBuiltinModule('node:http')
const { request: httpsRequest } = process.getBuiltinModule('node:https')

const MAX_URL = 4096
const MAX_ANSWER_BYTES = 1 << 19
const MAX_HEAD_BYTES = 16_384

interface HttpOptions {
  guard: AddressGuard
  timeoutMs: number
  /** Hosts that may be called, `*.example.com` for those below one; undefined = all. */
  hosts?: readonly string[]
}

/** @throws EffectError: nothing was sent for what is refused; what was sent and not answered is in doubt. */
export async function callHttp({ method, url: text, headers = {}, body }: HttpCall, { guard, timeoutMs, hosts }: HttpOptions): Promise<HttpAnswer> {
  const url = checkedUrl(text, guard, hosts)
  const timeout = AbortSignal.timeout(timeoutMs)
  let sent = false
  try {
    const bytes = body === undefined ? undefined : Buffer.from(body)
    const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
      method,
      agent: false,
      lookup: guard.lookup,
      maxHeaderSize: MAX_HEAD_BYTES,
      signal: timeout,
      headers: { 'user-agent': 'svc-agent-plane', accept: '*/*', ...headers, ...(bytes === undefined ? {} : { 'content-length': String(bytes.length) }) },
    })
    const answer = await sendGuarded(request, bytes, guard, () => {
      sent = true
    })
    return await read(answer, request)
  } catch (error) {
    throw failure(error, url, sent, timeout.aborted ? timeoutMs : undefined)
  }
}

function refused(why: string): EffectError {
  return new EffectError(`cannot call it: ${why}`, { disposition: 'did_not_happen', permanent: true })
}

function checkedUrl(text: string, { allowPrivate }: AddressGuard, hosts: readonly string[] | undefined): URL {
  if (text.length > MAX_URL || !URL.canParse(text)) throw refused('it is no URL')
  const url = new URL(text)
  if (url.protocol !== 'https:' && !(allowPrivate && url.protocol === 'http:')) throw refused(`"${url.origin}" is not https`)
  if (url.username !== '' || url.password !== '') throw refused(`"${url.host}" carries a user or a password; send a header`)
  if (hosts !== undefined && !hosts.some((host) => fits(url.hostname, host)))
    throw refused(`"${url.hostname}" is not among the hosts of the agent; see spec.security.hosts`)
  if (allowPrivate) return url
  const address = literalAddress(url.hostname)
  const problem = address === undefined ? (isInternalName(url.hostname) ? 'an internal name' : undefined) : addressProblem(address)
  if (problem !== undefined) throw refused(`the host of "${url.origin}" is ${problem}; see agent_plane.allow_private_targets`)
  return url
}

function fits(hostname: string, allowed: string): boolean {
  return allowed.startsWith('*.') ? hostname.endsWith(allowed.slice(1)) : hostname === allowed
}

async function read(answer: IncomingMessage, request: ClientRequest): Promise<HttpAnswer> {
  const body = new BoundedBytes(MAX_ANSWER_BYTES)
  for await (const part of answer as AsyncIterable<Buffer>) {
    if (body.add(part)) continue
    request.destroy()
    throw new EffectError(`its answer has more than ${MAX_ANSWER_BYTES} bytes`, { disposition: 'landed', permanent: true })
  }
  const headers = Object.fromEntries(Object.entries(answer.headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')]))
  return { status: answer.statusCode as number, headers, body: body.bytes.toString() }
}

/** @param overMs the time limit, where it is over: a body that was cut by it says only that it was cut. */
function failure(error: unknown, url: URL, sent: boolean, overMs: number | undefined): EffectError {
  if (error instanceof EffectError) return error
  let at = error
  while (at instanceof AggregateError && at.errors.length > 0) at = at.errors[0]
  const why = overMs === undefined ? (at as Error).message.split('\n', 1)[0].slice(0, 200) : `there was no answer within ${overMs / 1000} s`
  const isRefused = at instanceof Forbidden
  return new EffectError(`cannot call "${url.origin}": ${why}`, { disposition: sent ? 'in_doubt' : 'did_not_happen', permanent: isRefused })
}
