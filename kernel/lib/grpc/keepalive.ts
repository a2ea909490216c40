/** Pings, so that a client that has vanished without a word does not keep its connection and its calls. */
import type { ServerHttp2Session } from 'node:http2'

interface KeepAlive {
  /** 0 = no pings. */
  keepalive_secs: number
  keepalive_timeout_secs: number
}

/** @param cut ends the connection. @returns how to stop. */
export function keepAlive(session: ServerHttp2Session, { keepalive_secs: every, keepalive_timeout_secs: limit }: KeepAlive, cut: () => void): () => void {
  if (every === 0) return () => {}
  let unanswered: NodeJS.Timeout | undefined
  const pings = setInterval(() => {
    if (session.destroyed || unanswered !== undefined) return
    unanswered = setTimeout(cut, limit * 1000)
    unanswered.unref()
    const sent = session.ping(() => {
      clearTimeout(unanswered)
      unanswered = undefined
    })
    if (!sent) cut()
  }, every * 1000)
  pings.unref()
  return () => {
    clearInterval(pings)
    clearTimeout(unanswered)
  }
}
