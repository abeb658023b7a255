use super::*;

use redrive_core::failure::Failure;

use Class as C;
use Kind as K;

fn made(refusal: Refusal) -> Failure {
    let failure = Failure::new(refusal.class, refusal.kind, refusal.text).with_hint(refusal.hint);
    refusal.status.map_or(failure.clone(), |status| failure.with_status(status))
}

fn failure(status: u16, body: &str, hint: Option<Duration>) -> Failure {
    made(refusal(status, body.as_bytes(), hint, None))
}

/// Who said it, status, body, what it means.
type Case = (&'static str, u16, &'static str, Class, Kind);

/// Refusals as services write them.
const REFUSALS: &[Case] = &[
    // OpenAI
    (
        "OpenAI, no credit",
        429,
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
        C::Quota,
        K::Client,
    ),
    (
        "OpenAI, hard limit",
        400,
        r#"{"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","param":null,"code":"billing_hard_limit_reached"}}"#,
        C::Quota,
        K::Client,
    ),
    (
        "OpenAI, account not active",
        429,
        r#"{"error":{"message":"Your account is not active, please check your billing details on our website.","type":"billing_not_active","param":null,"code":"billing_not_active"}}"#,
        C::Quota,
        K::Client,
    ),
    (
        "OpenAI, tokens per minute",
        429,
        r#"{"error":{"message":"Rate limit reached for text-embedding-3-small in organization org-x on tokens per min (TPM): Limit 1000000, Used 999000, Requested 9000. Please try again in 480ms. Visit https://platform.openai.com/account/rate-limits to learn more.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
        C::RateLimited,
        K::Client,
    ),
    (
        "OpenAI, larger than the limit itself",
        429,
        r#"{"error":{"message":"Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 34000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "OpenAI, context of an embedding",
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens, however you requested 10000 tokens (10000 in your prompt; 0 for the completion). Please reduce your prompt; or completion length.","type":"invalid_request_error","param":null,"code":null}}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "OpenAI, context of a chat",
        400,
        r#"{"error":{"message":"Too much.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "OpenAI, tokens per request",
        400,
        r#"{"error":{"message":"Requested 319487 tokens, max 300000 tokens per request","type":"max_tokens_per_request","param":null,"code":"max_tokens_per_request"}}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "OpenAI, inputs per request",
        400,
        r#"{"error":{"message":"Invalid 'input': array too long. Expected an array with maximum length 2048, but got an array with length 2049 instead.","type":"invalid_request_error","param":"input","code":"array_above_max_length"}}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "OpenAI, a parameter too large",
        400,
        r#"{"error":{"message":"max_tokens is too large: 50000. This model supports at most 16384 completion tokens.","type":"invalid_request_error","param":"max_tokens","code":"invalid_value"}}"#,
        C::Final,
        K::Client,
    ),
    (
        "OpenAI, empty input",
        400,
        r#"{"error":{"message":"Invalid 'input[0]': input cannot be an empty string.","type":"invalid_request_error","param":"input","code":null}}"#,
        C::Final,
        K::Client,
    ),
    (
        "OpenAI, key",
        401,
        r#"{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
        C::Quota,
        K::Client,
    ),
    (
        "OpenAI, model",
        404,
        r#"{"error":{"message":"The model `gpt-9` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
        C::Final,
        K::Client,
    ),
    (
        "OpenAI, no access to a model",
        403,
        r#"{"error":{"message":"Project `proj_x` does not have access to model `o3`","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
        C::Quota,
        K::Access,
    ),
    (
        "OpenAI, server",
        500,
        r#"{"error":{"message":"The server had an error while processing your request. Sorry about that!","type":"server_error","param":null,"code":null}}"#,
        C::Retryable,
        K::Server,
    ),
    (
        "OpenAI, overloaded, no wait named",
        503,
        r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"server_error","param":null,"code":null}}"#,
        C::Retryable,
        K::Server,
    ),
    // Azure OpenAI
    (
        "Azure, calls",
        429,
        r#"{"error":{"code":"429","message":"Requests to the Embeddings_Create Operation under Azure OpenAI API version 2024-02-01 have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 2 seconds."}}"#,
        C::RateLimited,
        K::Client,
    ),
    (
        "Azure, gateway",
        429,
        r#"{"statusCode":429,"message":"Rate limit is exceeded. Try again in 12 seconds."}"#,
        C::RateLimited,
        K::Client,
    ),
    (
        "Azure, key",
        401,
        r#"{"statusCode":401,"message":"Unauthorized. Access token is missing, invalid, audience is incorrect, or have expired."}"#,
        C::Quota,
        K::Client,
    ),
    (
        "Azure, content",
        400,
        r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
        C::Final,
        K::Client,
    ),
    (
        "Azure, deployment",
        404,
        r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
        C::Final,
        K::Client,
    ),
    // Ollama
    (
        "Ollama, length",
        400,
        r#"{"error":"the input length exceeds the context length"}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "Ollama, length before",
        400,
        r#"{"error":"input length exceeds maximum context length"}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "Ollama, length as a server error",
        500,
        r#"{"error":{"message":"the input length exceeds the context length","type":"api_error","param":null,"code":null}}"#,
        C::Oversized,
        K::Server,
    ),
    (
        "Ollama, model",
        404,
        r#"{"error":{"message":"model \"nomic\" not found, try pulling it first","type":"not_found_error","param":null,"code":null}}"#,
        C::Final,
        K::Client,
    ),
    (
        "Ollama, busy",
        503,
        r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#,
        C::Retryable,
        K::Server,
    ),
    (
        "Ollama, runner gone",
        500,
        r#"{"error":"do embedding request: Post \"http://127.0.0.1:41075/embedding\": EOF"}"#,
        C::Retryable,
        K::Server,
    ),
    // llama.cpp
    (
        "llama.cpp, batch",
        500,
        r#"{"error":{"code":500,"message":"input (3926 tokens) is too large to process. increase the physical batch size (current batch size: 2048)","type":"server_error"}}"#,
        C::Oversized,
        K::Server,
    ),
    (
        "llama.cpp, context",
        400,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9001,"n_ctx":4096}}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "llama.cpp, loading",
        503,
        r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        C::Retryable,
        K::Server,
    ),
    // vLLM
    (
        "vLLM, context, before",
        400,
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages, Please reduce the length of the messages.","type":"BadRequestError","param":null,"code":400}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "vLLM, context",
        400,
        r#"{"error":{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","type":"BadRequestError","param":null,"code":400}}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "vLLM, model",
        404,
        r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}"#,
        C::Final,
        K::Client,
    ),
    ("vLLM, engine dead", 500, "Internal Server Error", C::Retryable, K::Server),
    // Text Embeddings Inference
    (
        "TEI, length",
        413,
        r#"{"error":"Input validation error: `inputs` must have less than 512 tokens. Given: 3002","error_type":"Validation"}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "TEI, length, another status",
        422,
        r#"{"message":"Input validation error: `inputs` must have less than 512 tokens. Given: 3002","code":422,"type":"validation"}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "TEI, batch",
        422,
        r#"{"message":"batch size 64 > maximum allowed batch size 32","code":422,"type":"validation"}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "TEI, overloaded",
        429,
        r#"{"message":"Model is overloaded","code":429,"type":"overloaded"}"#,
        C::RateLimited,
        K::Client,
    ),
    (
        "TEI, inference",
        424,
        r#"{"error":"DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")","error_type":"Backend"}"#,
        C::Retryable,
        K::Server,
    ),
    // LiteLLM
    (
        "LiteLLM, budget",
        400,
        r#"{"error":{"message":"Budget has been exceeded! Current cost: 0.0012, Max budget: 0.001","type":"budget_exceeded","param":null,"code":"400"}}"#,
        C::Quota,
        K::Client,
    ),
    (
        "LiteLLM, context",
        400,
        r#"{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - too much","type":null,"param":null,"code":"400"}}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "LiteLLM, no deployment left",
        429,
        r#"{"error":{"message":"No deployments available for selected model, Try again in 60 seconds. Passed model=gpt","type":"None","param":"None","code":"429"}}"#,
        C::RateLimited,
        K::Client,
    ),
    (
        "LiteLLM, a throttle of Bedrock that speaks of tokens",
        429,
        r#"{"error":{"message":"litellm.RateLimitError: BedrockException - {\"message\":\"Too many tokens, please wait before trying again.\"}","type":"throttling_error","param":null,"code":"429"}}"#,
        C::RateLimited,
        K::Client,
    ),
    // Voyage
    (
        "Voyage, batch",
        400,
        r#"{"detail":"Request to model 'voyage-code-3' failed. The max allowed tokens per submitted batch is 120000. Your batch has 124417 tokens after truncation. Please lower the number of tokens in the batch."}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "Voyage, one text",
        400,
        r#"{"detail":"The example at index 1 has too many tokens for the model context window."}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "Voyage, no payment method is a low limit, not credit",
        429,
        r#"{"detail":"You have not yet added your payment method in the billing page and will have reduced rate limits of 3 RPM and 10K TPM."}"#,
        C::RateLimited,
        K::Client,
    ),
    ("Voyage, key", 401, r#"{"detail":"Provided API key is invalid."}"#, C::Quota, K::Client),
    // Mistral
    (
        "Mistral, tokens",
        400,
        r#"{"object":"error","message":"Too many tokens in batch. Max is 16384 got 17555","type":"invalid_request_error","param":null,"code":null}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "Mistral, inputs",
        400,
        r#"{"object":"error","message":"Too many inputs in request, split into more batches.","type":"invalid_request_prompt","param":null,"code":"3210"}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "Mistral, rate",
        429,
        r#"{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","param":null,"code":"1300"}"#,
        C::RateLimited,
        K::Client,
    ),
    (
        "Mistral, validation",
        422,
        r#"{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted"}]}"#,
        C::Final,
        K::Client,
    ),
    // Others
    (
        "Google, a limit per minute that is called quota",
        429,
        r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 38.2s.","status":"RESOURCE_EXHAUSTED"}}]"#,
        C::RateLimited,
        K::Client,
    ),
    (
        "DashScope, batch",
        400,
        r#"{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Value error, batch size is invalid, it should not be larger than 10.: input.contents","type":"InvalidParameter","param":null,"code":"InvalidParameter"}}"#,
        C::Oversized,
        K::Client,
    ),
    (
        "OpenRouter, credit",
        402,
        r#"{"error":{"message":"Insufficient credits","code":402}}"#,
        C::Quota,
        K::Client,
    ),
    (
        "Anthropic, overloaded",
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        C::RateLimited,
        K::Server,
    ),
    (
        "a proxy, body size",
        413,
        "<html><h1>413 Request Entity Too Large</h1></html>",
        C::Oversized,
        K::Client,
    ),
    ("a proxy, gateway", 502, "<html><h1>502 Bad Gateway</h1></html>", C::Retryable, K::Server),
    ("a proxy, gateway timeout", 504, "", C::Timeout, K::Server),
    ("anybody, too slow", 408, "", C::Timeout, K::Client),
    ("anybody, too early", 425, "", C::Retryable, K::Client),
    // Credit, in the words of services that do not say 402
    (
        "xAI, credits",
        403,
        r#"{"code":"The caller does not have permission to execute the specified operation","error":"Your team has used all available credits or reached its monthly spending limit."}"#,
        C::Quota,
        K::Client,
    ),
    (
        "Azure, volume",
        403,
        r#"{"statusCode":403,"message":"Out of call volume quota. Quota will be replenished in 6.23:59:59."}"#,
        C::Quota,
        K::Client,
    ),
    (
        "OpenRouter, key limit",
        403,
        r#"{"error":{"message":"Key limit exceeded (total limit).","code":403}}"#,
        C::Quota,
        K::Client,
    ),
    (
        "DeepSeek, balance",
        401,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error"}}"#,
        C::Quota,
        K::Client,
    ),
    (
        "a code alone",
        403,
        r#"{"error":{"message":"No.","code":"insufficient_account_balance"}}"#,
        C::Quota,
        K::Client,
    ),
    (
        "DashScope, free tier",
        403,
        r#"{"error":{"message":"The free tier of the model has been exhausted.","code":"AllocationQuota.FreeTierOnly"}}"#,
        C::Quota,
        K::Client,
    ),
    (
        "Fireworks, suspended",
        412,
        r#"{"error":"Account is suspended, possibly due to reaching the monthly spending limit"}"#,
        C::Quota,
        K::Client,
    ),
    ("anybody, precondition", 412, r#"{"error":"The tensor is not ready"}"#, C::Final, K::Client),
    (
        "Google, a limit per day",
        429,
        r#"[{"error":{"code":429,"message":"Quota exceeded for metric generate_content_free_tier_requests, limit: 50 per_day","status":"RESOURCE_EXHAUSTED"}}]"#,
        C::Quota,
        K::Client,
    ),
    (
        "OpenAI, a limit per day that names a wait",
        429,
        r#"{"error":{"message":"Rate limit reached for gpt-4o on requests per day (RPD): Limit 200, Used 200. Please try again in 7m12s.","type":"requests","code":"rate_limit_exceeded"}}"#,
        C::RateLimited,
        K::Client,
    ),
    (
        "Cohere, trial",
        429,
        r#"{"message":"You are using a Trial key, which is limited to 1000 API calls / month."}"#,
        C::Quota,
        K::Client,
    ),
    (
        "credit as a server error",
        500,
        r#"{"error":{"message":"upstream","code":"insufficient_quota"}}"#,
        C::Quota,
        K::Server,
    ),
    // What is about the text, with the status of a key
    (
        "OpenRouter, moderation",
        403,
        r#"{"error":{"message":"The model requires moderation, and your input was flagged","code":403}}"#,
        C::Final,
        K::Client,
    ),
    (
        "a gateway, content",
        403,
        r#"{"error":{"message":"No.","code":"content_policy_violation"}}"#,
        C::Final,
        K::Client,
    ),
    ("a firewall", 403, "<html>Request blocked</html>", C::Quota, K::Access),
    ("cut off", 429, r#"{"error":{"code":"insufficient_quota","mess"#, C::Quota, K::Client),
    ("nothing", 400, "", C::Final, K::Client),
];

#[test]
fn refusals_of_real_services_are_told_apart() {
    for (who, status, body, class, kind) in REFUSALS {
        let failure = failure(*status, body, None);
        assert_eq!((failure.class, failure.kind), (*class, *kind), "{who}: {failure}");
        assert_eq!(failure.status, Some(*status), "{who}");
        assert!(failure.message().starts_with(&format!("HTTP {status}")), "{who}: {failure}");
    }
}

#[test]
fn a_wait_that_is_named_tells_a_throttle_from_an_outage() {
    let wait = Some(Duration::from_secs(7));
    assert_eq!(failure(503, "busy", wait).class, C::RateLimited);
    assert_eq!(failure(503, "busy", wait).hint, wait);
    assert_eq!(failure(503, "busy", None).class, C::Retryable);
    assert_eq!(failure(500, "busy", wait).class, C::Retryable);
    assert_eq!(failure(429, r#"{"error":{"code":"insufficient_quota"}}"#, wait).class, C::Quota);
    assert_eq!(failure(429, r#"{"error":{"code":"insufficient_quota"}}"#, wait).hint, None);
}

#[test]
fn waits_are_read_from_texts() {
    let table = [
        ("Please try again in 480ms. Visit", Some(480)),
        ("Please try again in 1m2.5s.", Some(62_500)),
        ("Please retry after 2 seconds.", Some(2_000)),
        ("Try again in 12 seconds", Some(12_000)),
        ("please retry in 1 minute", Some(60_000)),
        ("Please retry in 38.2s.", Some(38_200)),
        ("try again in a while", None),
        ("try again in 5", None),
        ("try again in -5s", None),
        ("try again in ", None),
        ("please try again later", None),
    ];
    for (text, expected) in table {
        let hint = failure(429, text, None).hint.map(|hint| hint.as_millis());
        assert_eq!(hint, expected, "{text}");
    }
    let header = Some(Duration::from_secs(1));
    assert_eq!(failure(429, "try again in 5s", header).hint, header, "the header goes first");
}

#[test]
fn texts_say_what_can_be_done() {
    let table = [
        (
            401,
            r#"{"error":{"message":"Incorrect key.","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            "HTTP 401: the API key was refused: Incorrect key. (invalid_api_key, invalid_request_error)",
        ),
        (403, "", "HTTP 403: the API key was refused"),
        (404, r#"{"error":"model not found"}"#, "HTTP 404: no such model or address: model not found"),
        (429, r#"{"detail":"slow"}"#, "HTTP 429: slow"),
        (500, "Internal Server Error", "HTTP 500: Internal Server Error"),
        (500, r#"{"error":{}}"#, r#"HTTP 500: {"error":{}}"#),
        (502, "", "HTTP 502"),
    ];
    for (status, body, expected) in table {
        assert_eq!(failure(status, body, None).message(), expected);
    }
}

#[test]
fn an_error_with_a_status_of_success_means_what_it_says() {
    let table = [
        (r#"{"error":{"message":"slow down","code":429}}"#, "rate_limited/client: HTTP 429: slow down"),
        (r#"{"error":{"message":"gone","code":"502"}}"#, "retryable/server: HTTP 502: gone"),
        (
            r#"{"error":{"message":"no","code":"insufficient_quota"}}"#,
            "quota/client: the answer is an error: no (insufficient_quota)",
        ),
        (
            r#"{"error":{"message":"Insufficient Balance"}}"#,
            "quota/client: the answer is an error: Insufficient Balance",
        ),
        (
            r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#,
            "oversized/client: the answer is an error: m (context_length_exceeded)",
        ),
        (
            r#"{"error":{"message":"prompt is too long"}}"#,
            "oversized/client: the answer is an error: prompt is too long",
        ),
        (
            r#"{"error":{"message":"m","code":"rate_limit_exceeded"}}"#,
            "rate_limited/client: the answer is an error: m (rate_limit_exceeded)",
        ),
        (
            r#"{"error":{"message":"m","type":"overloaded_error"}}"#,
            "rate_limited/server: the answer is an error: m (overloaded_error)",
        ),
        (
            r#"{"error":{"message":"m","type":"server_error"}}"#,
            "retryable/server: the answer is an error: m (server_error)",
        ),
        (
            r#"{"error":{"message":"m","status":"UNAUTHENTICATED"}}"#,
            "quota/client: the answer is an error: the API key was refused: m (UNAUTHENTICATED)",
        ),
        (
            r#"{"error":{"message":"m","type":"invalid_request_error"}}"#,
            "final/client: the answer is an error: m (invalid_request_error)",
        ),
        (r#"{"error":"boom"}"#, "retryable/answer: the answer is an error: boom"),
        (r#"{"error":{"code":200,"message":"?"}}"#, "retryable/answer: the answer is an error: ?"),
    ];
    for (body, expected) in table {
        let failure = made(reported(body.as_bytes()));
        assert_eq!((failure.to_string().as_str(), failure.status), (expected, None));
    }
}

#[test]
fn any_body_is_survived() {
    let long = format!("é{}", "é".repeat(40_000));
    for body in ["[", "[]", "[[]]", "null", "3", "\"x\"", "{\"error\":[]}", "{\"error\":[1]}", &long] {
        for status in [200, 302, 400, 429, 500, 999] {
            assert!(failure(status, body, None).message().starts_with("HTTP"), "{status} {body}");
        }
    }
}
