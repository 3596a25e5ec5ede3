// An SMTP server that delivers into a Maildir (cr.yp.to/proto/maildir.html): node smtp.js MAILDIR CERTIFICATE KEY USER PASSWORD.
// It prints two ports: one with TLS from the first byte, one with STARTTLS.
const fs = require("fs"), path = require("path");
const { SMTPServer } = require("smtp-server");
const [dir, cert, key, user, password] = process.argv.slice(2);

let count = 0;
const options = {
	cert: fs.readFileSync(cert), key: fs.readFileSync(key), authOptional: false,
	onAuth(auth, session, done) {
		if (auth.username !== user || auth.password !== password) return done(new Error("bad password"));
		done(null, { user });
	},
	onRcptTo(to, session, done) {
		done(to.address.endsWith("@nowhere.example") ? Object.assign(new Error("no such user"), { responseCode: 550 }) : null);
	},
	onData(stream, session, done) {
		const parts = [];
		stream.on("data", (b) => parts.push(b));
		stream.on("end", () => {
			const name = `${Date.now()}.${process.pid}_${++count}.test`, temp = path.join(dir, "tmp", name);
			if (session.envelope.rcptTo.some((to) => to.address === user)) {
				fs.writeFileSync(temp, Buffer.concat(parts), { mode: 0o666 });
				fs.renameSync(temp, path.join(dir, "new", name));
			}
			done(null, "accepted");
		});
	},
};
const servers = [true, false].map((secure) => new SMTPServer({ ...options, secure }));
Promise.all(servers.map((s) => new Promise((ready) => s.listen(0, "127.0.0.1", () => ready(s.server.address().port)))))
	.then((ports) => console.log(ports.join(" ")));
process.stdin.on("end", () => process.exit(0)).resume();
