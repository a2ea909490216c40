/** JSON over HTTP from a server that may be slow, down, or answer with anything. */
import { BoundedBytes } from 'svcdb/lib/network'

const MAX_BYTES = 1_048_576
const TIMEOUT_MS = 10_000

/** Redirects are not followed: keys come from where the config says. @throws Error in one line, without the URL. */
export async function fetchJson(url: URL, stopping: AbortSignal): Promise<unknown> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS)
  let bytes: Uint8Array
  try {
    const answer = await fetch(url, {
      headers: { accept: 'application/json, application/jwk-set+json' },
      redirect: 'manual',
      signal: AbortSignal.any([timeout, stopping]),
    })
    if (answer.status !== 200) {
      await answer.body?.cancel()
      throw new Error(statusText(answer))
    }
    bytes = await readBody(answer)
  } catch (error) {
    if (timeout.aborted) throw new Error(`there was no answer within ${TIMEOUT_MS / 1000} s`)
    if (stopping.aborted) throw new Error('the server is stopping')
    throw new Error(causeOf(error))
  }
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw new Error('the answer is not JSON')
  }
}

async function readBody({ body }: Response): Promise<Uint8Array> {
  const bytes = new BoundedBytes(MAX_BYTES)
  // Leaving the loop cancels the rest.
  for await (const chunk of body ?? []) {
    if (!bytes.add(chunk)) throw new Error(`the answer has more than ${MAX_BYTES} bytes`)
  }
  return bytes.bytes
}

function statusText({ status, headers }: Response): string {
  const location = headers.get('location')
  return status >= 300 && status < 400 && location !== null
    ? `it answered ${status}, a redirect to "${location.slice(0, 200)}", and redirects are not followed; give the URL that it leads to`
    : `it answered ${status}`
}

/** `fetch failed` says nothing; what is behind it does. */
function causeOf(error: unknown): string {
  let at = error
  while (at instanceof Error && at.cause instanceof Error) at = at.cause
  if (at instanceof AggregateError && at.errors.length > 0) at = at.errors[0]
  return at instanceof Error ? at.message || String((at as NodeJS.ErrnoException).code ?? at.name) : String(at)
}
