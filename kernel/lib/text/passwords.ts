/** Texts of the config in messages: whoever writes a password into a URL that may have none must not find it in a log. */

/** Where a user may begin, at the beginning of a word only: tried at each character of it, a long text would take the square of its length. */
const BEFORE = /\/\/|(?<![^\s"/:,])[^\s"/:,]+:(?!\/\/)/

/** With "…" for what stands before an "@" as user and password: `http://…@host`, `…@host:1883`; a password may have a "/" or a "@" itself. */
export function withoutPasswords(text: string): string {
  return text.replace(/[^\s"]+/g, (word) => {
    const at = word.lastIndexOf('@')
    const before = at < 0 ? null : BEFORE.exec(word.slice(0, at))
    return before === null ? word : `${word.slice(0, before.index)}${before[0] === '//' ? '//' : ''}…${word.slice(at)}`
  })
}
