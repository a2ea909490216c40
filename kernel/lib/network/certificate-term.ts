/** Until when the certificate of a listener holds. Clients refuse an expired one, and nothing else on the server shows that. */
import { X509Certificate } from 'node:crypto'

/** So long before the end a word is due: renewals by ACME happen a month before it. */
const SOON_MS = 14 * 86_400_000

/** Until when a certificate holds. @throws Error, of what is made and of `renewed`, for a PEM that has no certificate. */
export class CertificateTerm {
  private readonly file: string
  private notBefore = 0
  private notAfter = 0
  private told: string | undefined

  constructor(file: string, pem: Uint8Array | string) {
    this.file = file
    this.renewed(pem)
  }

  /** Another is in use. */
  renewed(pem: Uint8Array | string): void {
    const { validFromDate, validToDate } = new X509Certificate(pem as Buffer)
    this.notBefore = validFromDate.getTime()
    this.notAfter = validToDate.getTime()
    this.told = undefined
  }

  /** Seconds since the Unix epoch. */
  get endsSecs(): number {
    return this.notAfter / 1000
  }

  /** What is wrong with it at a time, or will soon be, and what to do; undefined = nothing. */
  problem(now: number): string | undefined {
    const { file, notBefore, notAfter } = this
    const renew = 'put a renewed one in its place, which is taken up without a restart where tls.reload_interval_secs is above 0'
    if (now > notAfter) return `the certificate of tls.cert "${file}" expired at ${new Date(notAfter).toISOString()}, and clients refuse it; ${renew}`
    if (now < notBefore)
      return `the certificate of tls.cert "${file}" holds from ${new Date(notBefore).toISOString()} only, and clients refuse it; look whether the clock is right`
    if (notAfter - now < SOON_MS) return `the certificate of tls.cert "${file}" expires at ${new Date(notAfter).toISOString()}; ${renew}`
    return undefined
  }

  /** What `problem` says, where that is another than last time. */
  news(now: number): string | undefined {
    const found = this.problem(now)
    if (found === this.told) return undefined
    this.told = found
    return found
  }
}
