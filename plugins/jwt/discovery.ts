/** Where an issuer keeps its keys: OpenID Connect Discovery 1.0. */
import { fetchJson } from './fetch-json.ts'
import { type KeySet, parseKeySet } from './key-set.ts'
import type { KeySetSource } from './settings.ts'

/** The key set as the issuer has it now. @throws Error naming the URL that failed. */
export async function loadKeySet(source: KeySetSource, stopping: AbortSignal): Promise<KeySet> {
  const url = 'jwksUrl' in source ? source.jwksUrl : await discover(source, stopping)
  try {
    return parseKeySet(await fetchJson(url, stopping))
  } catch (error) {
    throw new Error(`cannot fetch the key set "${url}": ${(error as Error).message}`)
  }
}

async function discover({ issuer, discoveryUrl }: Extract<KeySetSource, { issuer: string }>, stopping: AbortSignal): Promise<URL> {
  try {
    const { issuer: named, jwks_uri: keys } = ((await fetchJson(discoveryUrl, stopping)) ?? {}) as Record<string, unknown>
    // As the bytes are: another issuer on the same host, or one behind a proxy, must not stand in.
    if (named !== issuer)
      throw new Error(
        `it is the document of issuer ${JSON.stringify(named ?? null).slice(0, 200)}, not of auth.jwt.issuer "${issuer}"; they must be the same text`,
      )
    const url = typeof keys === 'string' ? URL.parse(keys) : null
    if (url === null || !/^https?:$/.test(url.protocol)) throw new Error('its jwks_uri is no http or https URL')
    if (discoveryUrl.protocol === 'https:' && url.protocol !== 'https:') throw new Error('its jwks_uri is in plain text, and the issuer is not')
    return url
  } catch (error) {
    const { message } = error as Error
    const hint = message.includes('auth.jwt.issuer') ? '' : '; see that the issuer answers there, and that auth.jwt.issuer is its address'
    throw new Error(`cannot discover the keys of the issuer at "${discoveryUrl}": ${message}${hint}`)
  }
}
