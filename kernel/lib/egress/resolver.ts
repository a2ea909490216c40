/** Names to addresses. */
import { lookup, Resolver } from 'node:dns/promises'

/** @throws Error with the code of the resolver. */
export type Resolve = (host: string) => Promise<string[]>

const TIMEOUT_MS = 2000
const TRIES = 2
/** Of the four threads that getaddrinfo, files and compression share. */
const MAX_LOOKUPS = 2

/**
 * Asks the name servers of the machine without its hosts file and without threads: a name whose server never answers holds up nothing. All addresses of
 * both kinds, for each has to be good.
 * @param servers addresses of name servers; undefined = those of the machine.
 */
export function publicResolver(servers?: readonly string[]): Resolve {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES })
  if (servers !== undefined) resolver.setServers(servers)
  return async (host) => {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (found.length === 0) throw (answers[0] as PromiseRejectedResult).reason
    return found
  }
}

/** As other programs of the machine resolve names, hosts file and search domains included: for internal targets. Few at one time. */
export function systemResolver(): Resolve {
  const waiting: (() => void)[] = []
  let busy = 0
  return async (host) => {
    if (busy >= MAX_LOOKUPS) await new Promise<void>((resolve) => waiting.push(resolve))
    else busy++
    try {
      return (await lookup(host, { all: true })).map(({ address }) => address)
    } finally {
      const next = waiting.shift()
      if (next === undefined) busy--
      else next()
    }
  }
}
