// Jobs and the heartbeat.
import { open, part, done, accessible, picture, assert, url, dialog, confirm } from "./page.mjs";

const page = await open();

await part("a job is previewed before it is added", async () => {
  await page.goto(url + "/jobs");
  await page.locator("#jobs .empty").waitFor();
  await accessible(page, "no jobs");
  await page.getByRole("button", { name: "New job" }).click();
  const form = dialog(page);
  await form.getByLabel("What should be done?").fill("Tell me the weather");
  await form.getByLabel("When?").fill("when pigs fly");
  await form.getByRole("button", { name: "Preview" }).click();
  await form.locator(".dialog-error").waitFor();
  await form.getByLabel("When?").fill("every weekday at 7:00");
  await form.getByRole("button", { name: "Preview" }).click();
  await form.locator("#job-preview time").first().waitFor();
  await accessible(page, "job preview");
  await picture(page, "job-preview");
  await form.getByRole("button", { name: "Add this job" }).click();
  await page.waitForURL("**/jobs/*");
  await page.locator("#job-now").getByText("It has not run yet.").first().waitFor();
});

await part("it runs now", async () => {
  await page.getByRole("button", { name: "Run now" }).click();
  await page.locator("#job-now li", { has: page.locator(".state.good", { hasText: "done" }) }).waitFor();
  await accessible(page, "a job");
  await picture(page, "job");
  await page.locator("#job-now li").getByRole("link", { name: "Open" }).click();
  await page.locator(".msg.assistant", { hasText: "You said: Tell me the weather" }).waitFor();
  await page.goBack();
});

await part("pause, resume and edit", async () => {
  await page.getByRole("button", { name: "Pause" }).click();
  await page.locator("#job-now", { hasText: "paused" }).waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.locator("#job-now .state.good", { hasText: "active" }).waitFor();
  await page.getByRole("button", { name: "Edit" }).click();
  await dialog(page).getByLabel("What should be done?").fill("Tell me the news");
  await dialog(page).getByRole("button", { name: "Preview" }).click();
  await dialog(page).locator("#job-preview").getByRole("button", { name: "Save" }).click();
  await page.locator(".typed", { hasText: "Tell me the news" }).waitFor();
  await page.goto(url + "/jobs");
  await page.locator("#jobs .item", { hasText: "Tell me the news" }).waitFor();
});

await part("the heartbeat", async () => {
  await page.locator("#heartbeat").getByRole("button", { name: "Turn on …" }).click();
  await dialog(page).getByLabel("Quiet hours").fill("22:00-7:00");
  await accessible(page, "heartbeat dialog");
  await confirm(page, "Turn on");
  await page.locator("#heartbeat .item", { hasText: "Daily review" }).waitFor();
  await accessible(page, "jobs");
  await picture(page, "jobs");
  await page.locator("#heartbeat").getByRole("button", { name: "Turn off" }).click();
  await confirm(page, "Turn off");
  await page.locator("#heartbeat").getByRole("button", { name: "Turn on …" }).waitFor();
});

await part("a job is deleted", async () => {
  await page.locator("#jobs .item a").first().click();
  await page.getByRole("button", { name: "Delete" }).click();
  await accessible(page, "delete a job");
  await dialog(page).getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Delete" }).click();
  await dialog(page).locator("form").getByRole("button", { name: "Delete" }).click();
  await page.waitForURL(url + "/jobs");
  await page.locator("#jobs .empty").waitFor();
});

await done();
