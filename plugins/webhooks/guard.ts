/** Where deliveries may go: https to public addresses, unless private ones are allowed. */
import { AddressGuard, addressProblem, Forbidden, literalAddress } from 'svcdb/lib/egress'
import { originOf, parseTarget, refused } from './target.ts'

/** How long a definition waits for a name to be resolved. */
const CHECK_MS = 3000

export class Guard extends AddressGuard {
  /** When an endpoint is defined: what cannot be resolved now may be later. @throws BAD_REQUEST. */
  async check(text: string): Promise<URL> {
    const url = parseTarget(text, this.allowPrivate)
    if (this.allowPrivate || literalAddress(url.hostname) !== undefined) return url
    const found = await Promise.race([
      this.resolve(url.hostname).catch(() => []),
      new Promise<string[]>((resolve) => setTimeout(resolve, CHECK_MS, []).unref()),
    ])
    const problem = found.map(addressProblem).find((each) => each !== undefined)
    if (problem !== undefined) throw refused(originOf(url), `its name resolves to ${problem}`, 'use a public host, or set webhooks.allow_private_targets')
    return url
  }

  /** Before each connection, for an URL that was checked when it was defined, perhaps under another setting. @throws Forbidden. */
  parse(text: string): URL {
    try {
      return parseTarget(text, this.allowPrivate)
    } catch (error) {
      throw new Forbidden((error as Error).message)
    }
  }
}
