/** Texts of the config in messages: whoever writes a password into a URL that may have none must not find it in a log. */

/** With "…" for what stands before an "@" as user and password: `http://…@host`, `…@host:1883`; a password may have a "/" or a "@" itself. */
export function withoutPasswords(text: string): string {
  return text.replace(/(\/\/|[^\s"/:,]+:(?!\/\/))[^\s"]*@/g, (_, before: string) => (before === '//' ? '//…@' : '…@'))
}
