/** Sections of nodes that are asked a lot from one address, by callers that are often refused: what would stop that, and logs it, is not the subject. */
export const LET_ALONE = {
  rate_limit: { requests_per_second: 0, default_rps: 0, track_auth_failures: false },
  catalog_auth: { audit_sink: 'none' },
}
